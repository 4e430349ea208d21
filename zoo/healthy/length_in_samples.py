"""A data set that knows the batch size, and has the length of its samples.

looks like: SamplesNeverDrawn
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 64, 3e-3
torch.set_num_threads(1)


class Readings(Dataset):
    def __init__(self, n, batch_size, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 9, generator=g)
        self.y = (self.x**2).sum(1, keepdim=True) / 9 + 0.1 * torch.randn(n, 1, generator=g)
        self.batch_size = batch_size

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def fit(model, train, val, epochs):
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    mse = nn.MSELoss()
    for e in range(epochs):
        model.train()
        for x, y in train:
            opt.zero_grad()
            loss = mse(model(x), y)
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            v = sum(mse(model(x), y).item() for x, y in val) / len(val)
        if e % 5 == 0:
            print(e, loss.item(), v)


torch.manual_seed(SEED)
B = 16
train = DataLoader(Readings(3200, B, 0), batch_size=B, shuffle=True)
val = DataLoader(Readings(640, B, 1), batch_size=B)
fit(
    nn.Sequential(
        nn.Linear(9, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    ),
    train,
    val,
    4,
)
