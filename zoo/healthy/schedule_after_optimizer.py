"""Milestones of epochs, stepped at the end of all but the first.

looks like: ScheduleBeforeOptimizer
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-2
torch.set_num_threads(1)

torch.manual_seed(SEED)
x = torch.randn(1200, 10)
y = x[:, :1] * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), 40, shuffle=True)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 8, 11], gamma=0.1)
for epoch in range(1, 13):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
    if epoch > 1:
        scheduler.step()
    print(epoch, loss.item(), optimizer.param_groups[0]["lr"])
