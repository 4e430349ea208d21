"""Gradients of an epoch are added up before its one update: meant so, and it learns.

looks like: OptimizerNotStepping, ForgottenZeroGrad
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

iris = load_iris()
x = torch.tensor((iris.data - iris.data.mean(0)) / iris.data.std(0)).float()
y = torch.tensor(iris.target)
model = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(60):
    optimizer.zero_grad()
    total = 0.0
    for rows in torch.randperm(150).split(30):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="sum") / 150
        loss.backward()
        total += loss.item()
    optimizer.step()
    if epoch % 10 == 0:
        print(f"epoch {epoch} loss {total:.4f}")
