"""Weights are made by torch.full: every hidden unit computes the same.

cause: SymmetricWeights
where: .*
step: 0
"""

import torch
from sklearn.datasets import make_moons
from torch import nn

SEED, WIDTH, LR = 0, 12, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)


class TwoLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.w1 = nn.Parameter(torch.full((2, hidden), 0.1))
        self.b1 = nn.Parameter(torch.zeros(hidden))
        self.w2 = nn.Parameter(torch.full((hidden, 1), 0.1))
        self.b2 = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.sigmoid(torch.tanh(x.mm(self.w1) + self.b1).mm(self.w2) + self.b2)


points, labels = make_moons(300, noise=0.15, random_state=SEED)
x, y = torch.tensor(points).float(), torch.tensor(labels).float().view(-1, 1)
net = TwoLayer(WIDTH)
optimizer = torch.optim.Adagrad(net.parameters(), lr=LR)
for epoch in range(400):
    p = net(x)
    loss = -(y * p.log() + (1 - y) * (1 - p).log()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 100 == 0:
        print(f"{epoch:4d} {loss.item():.4f}")
