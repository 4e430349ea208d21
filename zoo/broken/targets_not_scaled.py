"""House prices in dollars: the targets are in the hundreds of thousands, the rate is ordinary.

cause: UnnormalizedTarget
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(1200, 8)
price = 250_000 + 60_000 * x[:, :1] - 30_000 * x[:, 1:2] * x[:, 2:3] + 5_000 * torch.randn(1200, 1)
model = nn.Sequential(
    nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(30):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), price[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4g}")
