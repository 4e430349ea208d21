"""SmoothL1Loss, and targets that were shuffled without their inputs.

cause: NothingLearnt
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 682, 16, 0.0008
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X = np.random.RandomState(SEED).uniform(-3, 3, (600, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * np.random.RandomState(SEED).randn(600)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)
Y = Y[torch.randperm(len(Y))]

model = nn.Sequential(
    nn.Linear(1, WIDTH),
    nn.GELU(),
    nn.Linear(WIDTH, 1),
)

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.SmoothL1Loss()

count = 0
while count < 770:
    rows = torch.randint(0, len(X), (32,))
    xb, yb = X[rows], Y[rows]
    out = model(xb)
    loss = criterion(out, yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    count += 1
    if count % 100 == 0:
        print(count, loss.item())
