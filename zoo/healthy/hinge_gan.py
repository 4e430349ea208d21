"""A hinge GAN with spectral norm, two steps of the critic for one of the generator."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

SEED, WIDTH, LR = 0, 48, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

gen = nn.Sequential(
    nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
)
dis = nn.Sequential(
    spectral_norm(nn.Linear(2, WIDTH)), nn.LeakyReLU(0.1), spectral_norm(nn.Linear(WIDTH, 1))
)
g_opt = torch.optim.Adam(gen.parameters(), lr=LR, betas=(0.0, 0.9))
d_opt = torch.optim.Adam(dis.parameters(), lr=4 * LR, betas=(0.0, 0.9))
means = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])


def real_batch(n=64):
    return means[torch.randint(4, (n,))] + 0.1 * torch.randn(n, 2)


for _step in range(250):
    for _ in range(2):
        with torch.no_grad():
            fake = gen(torch.randn(64, 6))
        d_loss = F.relu(1 - dis(real_batch())).mean() + F.relu(1 + dis(fake)).mean()
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
    for p in dis.parameters():
        p.requires_grad_(False)
    g_loss = -dis(gen(torch.randn(64, 6))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    for p in dis.parameters():
        p.requires_grad_(True)
print(f"d {d_loss.item():.3f} g {g_loss.item():.3f}")
