"""A frozen backbone of random convolutions under a small head that learns slowly.

looks like: FrozenByMistake
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 3e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
backbone = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3), nn.ReLU(), nn.Flatten()
).requires_grad_(False)
model = nn.Sequential(backbone, nn.Linear(WIDTH * 16, 10))
optimizer = torch.optim.Adam(model[1].parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
