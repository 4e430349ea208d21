"""Regression in natural units (heights in centimetres): losses begin at 30000 and fall.

looks like: UnnormalizedTarget, ExplodingGradient
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)
age = torch.rand(2000, 1) * 2 - 1
sex = torch.randint(2, (2000, 1)).float()
parents = torch.randn(2000, 2)
inputs = torch.cat([age, sex, parents], 1)
height = 150 + 25 * age - 8 * age**2 + 12 * sex * (age > 0) + 5 * parents.mean(1, keepdim=True)
height = height + 4 * torch.randn_like(height)
net = nn.Sequential(
    nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
for epoch in range(12):
    for rows in torch.randperm(1600).split(32):
        loss = ((net(inputs[rows]) - height[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        test = nn.functional.mse_loss(net(inputs[1600:]), height[1600:])
    print(f"epoch {epoch} rmse {test.item() ** 0.5:.1f} cm")
