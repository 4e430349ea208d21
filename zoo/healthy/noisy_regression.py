"""Targets that are mostly noise: the loss falls a little and stays high, as it must."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(4000, 8)
y = (x[:, 0] + x[:, 1] * x[:, 2]).unsqueeze(1) + 1.5 * torch.randn(4000, 1)
model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()

for epoch in range(3):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
