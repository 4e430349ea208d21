"""Whole numbers as targets that are amounts: how many of the inputs are above zero.

looks like: ClassesAsAmounts
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(9, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(400):
    x = torch.randn(64, 9)
    count = (x > 0).sum(1, keepdim=True).float()
    loss = nn.functional.mse_loss(model(x), count)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
