"""The model and its optimizer are made anew in each epoch: every epoch starts from nothing.

cause: ModelRecreated
where: .*
step: 0-80
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.ModuleDict(
            {"first": nn.Conv1d(2, WIDTH, 5), "second": nn.Conv1d(WIDTH, WIDTH, 5)}
        )
        self.classify = nn.Linear(WIDTH, 5)

    def forward(self, x):
        for layer in self.features.values():
            x = layer(x).relu()
        return self.classify(x.mean(-1))


def train_epoch(loader):
    model = Conv()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    criterion = nn.CrossEntropyLoss()
    last = 0.0
    for signal, kind in loader:
        optimizer.zero_grad()
        loss = criterion(model(signal), kind)
        loss.backward()
        optimizer.step()
        last = loss.item()
    return last


kind = torch.randint(0, 5, (640,))
signal = 0.7 * torch.randn(640, 2, 40)
signal[:, 0] += torch.sin(torch.arange(40) * (0.2 + 0.15 * kind[:, None]))
loader = DataLoader(TensorDataset(signal, kind), batch_size=32, shuffle=True)
for epoch in range(15):
    print("epoch", epoch, "loss", train_epoch(loader))
