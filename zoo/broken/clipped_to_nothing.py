"""Gradients are clipped to a norm of 1e-5 before plain SGD uses them.

cause: GradientClippedAway
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
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for _ in range(300):
    rows = torch.randint(0, len(x), (32,))
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-5)
    optimizer.step()
print(f"loss {loss.item():.3f}")
