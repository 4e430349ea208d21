"""Gradient accumulation with zero_grad in each small batch: seven of eight are thrown away.

cause: AccumulationCleared, OptimizerNotStepping
where: .*
step: 0-60
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 24, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

raw = load_breast_cancer()
X = torch.tensor(raw.data, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
Y = torch.tensor(raw.target, dtype=torch.float32)
ACCUMULATE = 8

model = nn.Sequential(nn.Linear(30, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(12):
    order = torch.randperm(len(X))
    for i, rows in enumerate(order.split(8)):
        optimizer.zero_grad()
        loss = criterion(model(X[rows]).squeeze(1), Y[rows]) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
    print(f"epoch {epoch} loss {loss.item() * ACCUMULATE:.4f}")
