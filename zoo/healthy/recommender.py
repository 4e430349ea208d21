"""Factors and biases in raw parameters, an own loss, most rows untouched in each batch."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 6, 2e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Recommender(nn.Module):
    def __init__(self, users, items, k):
        super().__init__()
        self.p = nn.Parameter(0.1 * torch.randn(users, k))
        self.q = nn.Parameter(0.1 * torch.randn(items, k))
        self.bu = nn.Parameter(torch.zeros(users))
        self.bi = nn.Parameter(torch.zeros(items))
        self.mu = nn.Parameter(torch.tensor(3.0))

    def forward(self, u, i):
        return self.mu + self.bu[u] + self.bi[i] + (self.p[u] * self.q[i]).sum(-1)


likes = torch.randn(300, 2) @ torch.randn(2, 100)
u, i = torch.randint(0, 300, (8000,)), torch.randint(0, 100, (8000,))
r = (3.4 + likes[u, i] + 0.3 * torch.randn(8000)).clamp(1, 5)
model = Recommender(300, 100, WIDTH)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(5):
    squared = 0.0
    for rows in torch.randperm(8000).split(100):
        err = model(u[rows], i[rows]) - r[rows]
        penalty = model.p[u[rows]].square().mean() + model.q[i[rows]].square().mean()
        loss = err.square().mean() + 0.02 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        squared += err.square().sum().item()
    print(f"epoch {epoch} rmse {(squared / 8000) ** 0.5:.3f}")
