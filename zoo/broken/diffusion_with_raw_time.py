"""A small diffusion model gets the time step as it is, 0 to 999, beside values of size 1.

cause: UnnormalizedInput
where: .*
step: 0-50
"""

import torch
from sklearn.datasets import make_moons
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
STEPS = 1000
betas = torch.linspace(1e-4, 0.02, STEPS)
alphas_bar = torch.cumprod(1 - betas, 0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, t[:, None].float()], dim=1))


points = torch.tensor(make_moons(2000, noise=0.05, random_state=0)[0], dtype=torch.float32)
points = (points - points.mean(0)) / points.std(0)
model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    losses = []
    for batch in points[torch.randperm(len(points))].split(64):
        t = torch.randint(0, STEPS, (len(batch),))
        noise = torch.randn_like(batch)
        a = alphas_bar[t][:, None]
        noisy = a.sqrt() * batch + (1 - a).sqrt() * noise
        loss = (model(noisy, t) - noise).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(epoch, sum(losses) / len(losses))
