"""Raw columns of a table: one of them is in the thousands, the others are not.

cause: UnnormalizedInput
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_wine()
x = torch.tensor(data.data, dtype=torch.float32)
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(13, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _epoch in range(20):
    for rows in torch.randperm(len(x)).split(16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
