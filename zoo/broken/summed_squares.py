"""Squares summed over a batch of 400 instead of averaged, with the usual rate.

cause: LearningRateTooHigh, ExplodingGradient, LossNotFinite
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, WIDTH, 5)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)).mean(-1))


model = Forecaster()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for step in range(200):
    walk = torch.randn(400, 21).cumsum(1) / 4
    predicted = model(walk[:, None, :20])
    loss = (predicted - walk[:, 20:]).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step} loss {loss.item():.4g}")
