"""Batches are made one sample at a time in Python, between the steps: the model mostly waits.

cause: SlowDataLoading
where: .*
step: 0-20
"""

import math
import random

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
random.seed(SEED)
torch.set_num_threads(1)


def sample():
    phase = random.random()
    wave = [math.sin(6.28 * (phase + i / 400)) + random.gauss(0, 0.1) for i in range(3200)]
    return wave[::100], 1.0 if phase > 0.5 else 0.0


def make_batch():
    rows = [sample() for _ in range(24)]
    return torch.tensor([r[0] for r in rows]), torch.tensor([[r[1]] for r in rows])


model = nn.Sequential(nn.Linear(32, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.BCEWithLogitsLoss()
for _ in range(120):
    x, y = make_batch()
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
