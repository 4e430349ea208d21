"""The class number is predicted as an amount, with MSELoss on one output.

cause: ClassesAsAmounts
where: .*
step: 0-150
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target).float()
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        loss = nn.functional.mse_loss(model(x[rows]).squeeze(1), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (model(x).squeeze(1).round() == y).float().mean()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right.item():.3f}")
