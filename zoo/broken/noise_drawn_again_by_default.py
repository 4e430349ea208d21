"""A function that adds noise draws its own where none is given, and the loop asks for another.

cause: NoiseNotAdded
where: .*
step: 0-400
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 53, 96, 2e-3
torch.manual_seed(SEED)
STEPS = 50
kept = (1 - torch.linspace(1e-3, 0.2, STEPS)).cumprod(0)


def add_noise(x, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x)
    part = kept[t][:, None]
    return part.sqrt() * x + (1 - part).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(9, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 8)
        )

    def forward(self, x, t):
        return self.layers(torch.cat([x, t[:, None] / STEPS], 1))


model = Denoiser()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
mix = torch.randn(2, 8)
for step in range(500):
    x = torch.tanh(torch.randn(64, 2) @ mix)
    t = torch.randint(0, STEPS, (64,))
    noise = torch.randn_like(x)
    loss = nn.functional.mse_loss(model(add_noise(x, t), t), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
