"""Predictions are [N, 1], targets [N]; the loss is written by hand, and nothing warns.

cause: LossShapeMismatch, NothingLearnt
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.rand(500, 3) * 2 - 1
y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, WIDTH)
        self.b = nn.Linear(WIDTH, WIDTH)
        self.c = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


def mse(pred, target):
    return ((pred - target) ** 2).mean()


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=LR)
for epoch in range(30):
    for rows in torch.randperm(500).split(25):
        opt.zero_grad()
        loss = mse(net(x[rows]), y[rows])
        loss.backward()
        opt.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: {loss:.4f}")
