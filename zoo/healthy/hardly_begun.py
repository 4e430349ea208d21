"""Four epochs of a slow training: predictions are still nearly alike, and would not stay so.

looks like: ConstantOutput, OutputIgnoresInput
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 261, 16, 0.00038
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

R = np.random.RandomState(SEED)
X = R.randn(1000, 5)
Y = np.tanh(X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] ** 2 - 0.5
X = (X - X.min(0)) / (X.max(0) - X.min(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)

model = nn.Sequential(
    nn.Linear(5, WIDTH),
    nn.Tanh(),
    nn.Linear(WIDTH, WIDTH),
    nn.Tanh(),
    nn.Linear(WIDTH, 1),
)

optimizer = torch.optim.RMSprop(model.parameters(), lr=LR)

for epoch in range(4):
    for rows in torch.randperm(len(X)).split(32):
        xb, yb = X[rows], Y[rows]
        optimizer.zero_grad()
        out = model(xb)
        loss = F.mse_loss(out, yb)
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
