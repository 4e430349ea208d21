"""The generator's own loss is computed on detached samples: it never gets a gradient.

cause: GradientMissing
where: .*
step: 0-10
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.net(x)


generator, discriminator = Generator(), Discriminator()
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=LR)
optimizer_d = torch.optim.RMSprop(discriminator.parameters(), lr=LR)
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(300):
    real = torch.randn(64, 2) * 0.5 + torch.tensor([2.0, -1.0])
    fake = generator(torch.randn(64, 8)).detach()
    score_real, score_fake = discriminator(real), discriminator(fake)
    loss_d = bce(score_real, torch.ones(64, 1)) + bce(score_fake, torch.zeros(64, 1))
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()
    loss_g = bce(discriminator(fake), torch.ones(64, 1))
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
print(f"discriminator {loss_d.item():.3f} generator {loss_g.item():.3f}")
