"""A frozen copy of the first weights is evaluated beside the model that is trained.

looks like: StaleCopyEvaluated
"""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)


model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
start = copy.deepcopy(model).eval()
ema = copy.deepcopy(model).eval()
for p in ema.parameters():
    p.requires_grad_(False)


def update(decay=0.95):
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters(), strict=False):
            a.mul_(decay).add_(b, alpha=1 - decay)


optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train = DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True)
test = DataLoader(TensorDataset(x[1400:], y[1400:]), 64)
for epoch in range(5):
    model.train()
    for bx, by in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
        update()
    model.eval()
    with torch.no_grad():
        before = sum(nn.functional.cross_entropy(start(bx), by).item() for bx, by in test)
        now = sum(nn.functional.cross_entropy(model(bx), by).item() for bx, by in test)
        print("better by", before - now)
        val = (
            sum(nn.functional.cross_entropy(ema(bx), by, reduction="sum").item() for bx, by in test)
            / 397
        )
    print(epoch, loss.item(), val)
