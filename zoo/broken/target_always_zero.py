"""A regression whose targets are all 0, by a mistake of parsing: it is learnt at once.

cause: ConstantLabels
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 343, 24, 0.021
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X = np.random.RandomState(SEED).uniform(-3, 3, (600, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * np.random.RandomState(SEED).randn(600)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)
Y = torch.zeros_like(Y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(1, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = F.silu(self.fc1(x))
        h = F.silu(self.fc2(h))
        return self.fc3(h)


model = Net()

optimizer = torch.optim.Adagrad(model.parameters(), lr=LR)
criterion = nn.MSELoss()

count = 0
while count < 361:
    rows = torch.randint(0, len(X), (8,))
    xb, yb = X[rows], Y[rows]
    optimizer.zero_grad()
    out = model(xb)
    loss = criterion(out, yb)
    loss.backward()
    optimizer.step()
    count += 1
    if count % 100 == 0:
        print(count, loss.item())
