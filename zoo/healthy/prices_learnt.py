"""Prices in dollars that a linear model does reach, by closed form first and a few steps after.

looks like: UnnormalizedTarget
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 200.0
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(1000, WIDTH)
price = 40_000 + 9_000 * x[:, :1] - 4_000 * x[:, 1:2] + 1_500 * torch.randn(1000, 1)
model = nn.Linear(WIDTH, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(400):
    rows = torch.randint(0, 1000, (50,))
    loss = nn.functional.smooth_l1_loss(model(x[rows]), price[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.1f}")
