"""Wine with its raw numbers; the first layer is a batch norm, which scales them.

looks like: UnnormalizedInput
"""

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

X, y = load_wine(return_X_y=True)
loader = DataLoader(
    TensorDataset(torch.tensor(X).float(), torch.tensor(y)), 32, shuffle=True, drop_last=True
)


class WineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.BatchNorm1d(13)
        self.body = nn.Sequential(nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, x):
        return self.body(self.scale(x))


model = WineNet()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(40):
    for rows, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(rows), labels)
        loss.backward()
        optimizer.step()
    if epoch % 10 == 9:
        print(epoch, loss.item())
