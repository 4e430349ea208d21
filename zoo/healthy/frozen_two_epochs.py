"""A head on a frozen backbone, stopped after two epochs, before it has learnt anything."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 120, 100, 0.00052
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X = np.random.RandomState(SEED).uniform(-3, 3, (600, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * np.random.RandomState(SEED).randn(600)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(
            [nn.Linear(1, WIDTH)] + [nn.Linear(WIDTH, WIDTH) for _ in range(1)]
        )
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = F.elu(layer(x))
        return self.out(x)


model = Net()

for name, p in model.named_parameters():
    p.requires_grad_(name.startswith("out"))

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()


def train_one_epoch(loader, epoch):
    total = 0.0
    for xb, yb in loader:
        out = model(xb)
        loss = criterion(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


train_loader = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
for epoch in range(2):
    mean = train_one_epoch(train_loader, epoch)
    print(f"epoch {epoch}: {mean:.4f}")
