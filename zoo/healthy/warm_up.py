"""The learning rate rises from 0 over the first 100 steps, and falls along a cosine to 0.

looks like: LearningRateZero, WarmUpNeverEnds
"""

import math

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer,
    lambda step: step / 100 if step < 100 else 0.5 + 0.5 * math.cos(math.pi * (step - 100) / 300),
)
criterion = nn.CrossEntropyLoss()

for _ in range(400):
    rows = torch.randint(0, len(x), (32,))
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    schedule.step()
print(f"loss {loss.item():.3f}")
