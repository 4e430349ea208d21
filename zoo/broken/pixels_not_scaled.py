"""Pixels go in as 0..255 instead of 0..1.

cause: UnnormalizedInput
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data * 255 / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
