"""One sample in a hundred has a missing value, which is NaN.

cause: InputNotFinite
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
x[torch.rand(len(x)) < 0.01, 3] = float("nan")
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _epoch in range(10):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
