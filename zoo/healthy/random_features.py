"""A large random layer that stays as it is, and a linear model on top that learns.

looks like: ParametersNotOptimized
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 400, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 10))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model[2].parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
