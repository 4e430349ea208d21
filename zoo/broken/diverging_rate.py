"""Regression by SGD at a learning rate at which every step overshoots, until the loss is NaN.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 32, 2.0
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target, dtype=torch.float32).unsqueeze(1)
y = (y - y.mean()) / y.std()
model = nn.Sequential(nn.Linear(10, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.MSELoss()

for _ in range(150):
    rows = torch.randint(0, len(x), (64,))
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
