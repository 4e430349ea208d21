"""A normalising flow of coupling layers: likelihood by hand, last layers that start at zero.

looks like: SymmetricWeights
"""

import math

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        return torch.cat([a, b * s.exp() + t], 1), s.squeeze(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(bool(i % 2)) for i in range(6))

    def log_prob(self, x):
        total = 0.0
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return -0.5 * (x**2).sum(1) - math.log(2 * math.pi) + total


flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=LR)
for _step in range(400):
    t = torch.rand(128) * 3
    x = 0.2 * torch.stack([t.cos() * t, t.sin() * t], 1) + 0.01 * torch.randn(128, 2)
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"nll {loss.item():.3f}")
