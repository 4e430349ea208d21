"""Noise of many times, and a network that is told which.

looks like: TimeDrawnAgain
"""

import math

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 96, 2e-3
torch.set_num_threads(1)

torch.manual_seed(SEED)
T = 100
betas = torch.linspace(1e-4, 0.05, T)
abar = (1 - betas).cumprod(0)


def embed(t, d=16):
    f = torch.exp(-math.log(1000) * torch.arange(d // 2) / (d // 2))
    a = t[:, None].float() * f
    return torch.cat([a.sin(), a.cos()], 1)


class Eps(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 + 16, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, 2),
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, embed(t)], 1))


def sample_data(n):
    a = torch.rand(n) * 6.283
    return torch.stack([a.cos(), a.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


def q_sample(x0, t, noise):
    return abar[t].sqrt()[:, None] * x0 + (1 - abar[t]).sqrt()[:, None] * noise


model = Eps()
opt = torch.optim.Adam(model.parameters(), LR)
for step in range(500):
    x0 = sample_data(128)
    noise = torch.randn_like(x0)
    t = torch.randint(0, T, (128,))
    xt = q_sample(x0, t, noise)
    pred = model(xt, t)
    loss = ((pred - noise) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, loss.item())
