"""Eighty noisy rows are learnt by heart; the validation loss is a function's, not a module's.

cause: Overfitting
where: .*
step: 5-1500
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_friedman1
from torch import nn

SEED, WIDTH, LR = 718, 200, 0.0036
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = make_friedman1(900, noise=0.5, random_state=SEED)
Y = (Y - Y.mean()) / Y.std()
X = (X - X.min(0)) / (X.max(0) - X.min(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)
Y = Y + 1.0 * torch.randn_like(Y)
order = torch.randperm(len(X))
X, Y = X[order], Y[order]
X, Y, test_x, test_y = X[:80], Y[:80], X[80:], Y[80:]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(10, WIDTH), nn.LeakyReLU(0.1), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.1)
        )
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.body(x)
        return self.head(h)


model = Net()

optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for epoch in range(108):
    model.train()
    for rows in torch.randperm(len(X)).split(16):
        xb, yb = X[rows], Y[rows]
        optimizer.zero_grad()
        out = model(xb)
        loss = F.mse_loss(out, yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = F.mse_loss(model(test_x), test_y)
    if epoch % 10 == 0:
        print("val", val.item())
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
