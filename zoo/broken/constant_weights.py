"""All weights start at 0.1: the hidden units are copies of each other and stay so.

cause: SymmetricWeights
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_wine()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(13, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
for layer in (model[0], model[2]):
    nn.init.constant_(layer.weight, 0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)

for _epoch in range(20):
    for rows in torch.randperm(len(x)).split(16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
