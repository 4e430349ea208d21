"""Sixteen quantiles for each of sixteen samples: each is compared with its target, on purpose.

looks like: LossShapeMismatch
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(4096, 6)
y = (x @ torch.randn(6) + x[:, 0].exp() * torch.randn(4096)) / 3
levels = (torch.arange(16) + 0.5) / 16
model = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(2):
    total = 0.0
    for rows in torch.randperm(4096).split(16):
        error = y[rows].unsqueeze(1) - model(x[rows])
        loss = torch.maximum(levels * error, (levels - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() / 256
    print(f"epoch {epoch} loss {total:.4f}")
