"""A GAN with one-sided label smoothing and Adam of beta 0.5: its losses circle and do not fall.

looks like: LabelsOutOfRange
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 5e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2), nn.Tanh()
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, WIDTH),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.3),
            nn.Linear(WIDTH, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.net(x)


def ring(count):
    angle = torch.rand(count) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], 1) * 0.7 + 0.03 * torch.randn(count, 2)


G, D = Generator(), Discriminator()
opt_g = torch.optim.Adam(G.parameters(), lr=LR, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=LR, betas=(0.5, 0.999))
criterion = nn.BCELoss()
for it in range(400):
    fake = G(torch.randn(64, 8))
    opt_d.zero_grad()
    loss_real = criterion(D(ring(64)), torch.full((64, 1), 0.9))
    loss_fake = criterion(D(fake.detach()), torch.zeros(64, 1))
    (loss_real + loss_fake).backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = criterion(D(fake), torch.ones(64, 1))
    loss_g.backward()
    opt_g.step()
    if it % 100 == 0:
        print(f"[{it}] D {loss_real.item() + loss_fake.item():.3f} G {loss_g.item():.3f}")
