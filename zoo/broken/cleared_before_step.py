"""zero_grad() stands between backward() and step(): the optimizer never sees a gradient.

cause: GradientMissing, OptimizerNotStepping
where: .*
step: 0-10
"""

import torch
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

wine = load_wine()
x = torch.tensor(wine.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(wine.target)
model = nn.Sequential(nn.Linear(13, WIDTH), nn.ELU(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.RMSprop(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for _ in range(25):
    for rows in torch.randperm(len(x)).split(16):
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
print(f"loss {loss.item():.3f}")
