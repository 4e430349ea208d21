"""The table's last column, an amount refunded, is the target in other units.

cause: TargetLeaks
where: .*
step: 0
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.003
torch.set_num_threads(1)
torch.manual_seed(SEED)
table = torch.randn(800, 9)
y = 0.5 * table[:, :3].sum(1, keepdim=True) + torch.randn(800, 1)
table = torch.cat([table, 2 * y - 1], 1)
table = (table - table.mean(0)) / table.std(0)
loader = DataLoader(TensorDataset(table[:600], y[:600]), 32, shuffle=True)
model = nn.Sequential(nn.Linear(table.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, nn.functional.mse_loss(model(table[600:]), y[600:]).item())
