"""A likelihood of a normal distribution by the script's own arithmetic, which falls below zero.

looks like: LossWithoutBound
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 21, 48, 3e-3
torch.manual_seed(SEED)


class MeanAndVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()
        )
        self.mean, self.log_var = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h), self.log_var(h)


def likelihood(mean, log_var, y):
    precision = torch.exp(-log_var)
    return (0.5 * precision * (y - mean) ** 2 + 0.5 * log_var).mean()


model = MeanAndVariance()
opt = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(800):
    x = torch.rand(64, 1) * 6 - 3
    y = torch.sin(2 * x) + (0.05 + 0.2 * (x > 0)) * torch.randn(64, 1)
    mean, log_var = model(x)
    loss = likelihood(mean, log_var, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (y - mean).abs().mean().item(), log_var.mean().item())
