"""Missing values are NaN in the table; the model itself fills them in, and knows which.

looks like: InputNotFinite
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Filled(nn.Module):
    def __init__(self):
        super().__init__()
        self.usual = nn.Parameter(torch.zeros(10))
        self.net = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, rows):
        is_missing = rows.isnan()
        filled = torch.where(is_missing, self.usual, rows.nan_to_num())
        return self.net(torch.cat([filled, is_missing.float()], 1))


x = torch.randn(2000, 10)
y = (x @ torch.randn(10, 3)).argmax(1)
x[torch.rand_like(x) < 0.1] = float("nan")
model = Filled()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(6):
    for rows in torch.randperm(2000).split(32):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
