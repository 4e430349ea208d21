"""An easy task, learnt long before training ends: losses and gradients go to nothing.

looks like: UpdatesStop
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target, dtype=torch.float32)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()

for _epoch in range(30):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]).squeeze(1), y[rows])
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.5f}")
