"""A WGAN with clipped weights: the critic's loss is negative and no measure of progress."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 5e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)

generator = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
critic = nn.Sequential(nn.Linear(2, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, 1))
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=LR)
optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=LR)
for _ in range(150):
    for _ in range(3):
        real = torch.randn(64, 2) * torch.tensor([0.3, 1.0]) + torch.tensor([1.5, 0.0])
        with torch.no_grad():
            fake = generator(torch.randn(64, 4))
        loss_c = critic(fake).mean() - critic(real).mean()
        optimizer_c.zero_grad()
        loss_c.backward()
        optimizer_c.step()
        with torch.no_grad():
            for parameter in critic.parameters():
                parameter.clamp_(-0.1, 0.1)
    loss_g = -critic(generator(torch.randn(64, 4))).mean()
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
print(f"critic {loss_c.item():.3f} generator {loss_g.item():.3f}")
