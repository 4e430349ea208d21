"""Digits by ten sigmoids and a binary loss on one-hot labels: unusual, and it learns."""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16).float()
y = nn.functional.one_hot(torch.tensor(digits.target), 10).float()
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ELU(), nn.Linear(WIDTH, 10), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, nesterov=True)
criterion = nn.BCELoss()
for epoch in range(10):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
