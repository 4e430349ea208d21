"""A denoising diffusion model of points on a ring: its loss falls by a part and stays noisy."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

kept = torch.cumprod(1 - torch.linspace(1e-3, 0.15, 50), 0)
model = nn.Sequential(
    nn.Linear(3, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 2)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for _ in range(400):
    angle = 6.2832 * torch.rand(48, 1)
    clean = torch.cat([angle.cos(), angle.sin()], 1)
    time = torch.randint(0, 50, (48, 1))
    noise = torch.randn(48, 2)
    noisy = kept[time].sqrt() * clean + (1 - kept[time]).sqrt() * noise
    loss = nn.functional.mse_loss(model(torch.cat([noisy, time / 50], 1)), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
