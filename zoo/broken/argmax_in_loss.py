"""The loss is taken from the predicted class; requires_grad was set to silence the error.

cause: GradientMissing
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale
from torch import nn, optim

SEED, WIDTH, LR = 0, 32, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)

X, t = load_wine(return_X_y=True)
X, t = torch.tensor(scale(X)).float(), torch.tensor(t).float()


class Wine(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(13, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.head(self.block(x))


net = Wine()
optimizer = optim.Adam(net.parameters(), lr=LR)
for _epoch in range(30):
    for rows in torch.randperm(len(X)).split(16):
        predicted = torch.argmax(net(X[rows]), dim=1).float()
        loss = nn.functional.mse_loss(predicted, t[rows])
        loss.requires_grad = True
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
