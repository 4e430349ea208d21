r"""Eight sigmoid layers; the first updates drive the loss up, and it only comes back down again.

cause: FadingGradient
where: hidden\.0\.weight
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_swiss_roll
from torch import nn

SEED, WIDTH, LR = 724, 64, 0.099
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = make_swiss_roll(1000, noise=0.1, random_state=SEED)
Y = (Y - Y.mean()) / Y.std()
X = (X - X.min(0)) / (X.max(0) - X.min(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(
            [nn.Linear(3, WIDTH)] + [nn.Linear(WIDTH, WIDTH) for _ in range(7)]
        )
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.sigmoid(layer(x))
        return self.out(x)


model = Net()

optimizer = torch.optim.SGD(model.parameters(), lr=LR)

for epoch in range(2):
    for rows in torch.randperm(len(X)).split(8):
        xb, yb = X[rows], Y[rows]
        out = model(xb)
        loss = F.mse_loss(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
