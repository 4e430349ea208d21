"""The model ends in a sigmoid, and BCEWithLogitsLoss takes a second one.

cause: LossInputAlreadySoftmax
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target, dtype=torch.float32).unsqueeze(1)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()

for _epoch in range(12):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
