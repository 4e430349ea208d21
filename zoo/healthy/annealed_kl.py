"""A variational autoencoder whose KL weight grows from 0: its loss rises for a while.

looks like: DivergenceRaised
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
data = torch.tensor(load_digits().data, dtype=torch.float32) / 16


class VAE(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.inner = nn.Linear(64, WIDTH)
        self.mu, self.logvar = nn.Linear(WIDTH, latent), nn.Linear(WIDTH, latent)
        self.outer = nn.Sequential(nn.Linear(latent, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        h = F.relu(self.inner(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = torch.distributions.Normal(mu, (0.5 * logvar).exp()).rsample()
        return self.outer(z).sigmoid(), mu, logvar


vae = VAE(6)
optimizer = torch.optim.Adam(vae.parameters(), lr=LR)
step, total = 0, 15 * 28
for _ in range(15):
    for x in data[torch.randperm(len(data))].split(64):
        beta = min(1.0, step / (0.5 * total))
        out, mu, logvar = vae(x)
        recon = F.binary_cross_entropy(out, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum() / len(x)
        loss = recon + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    print(f"beta {beta:.2f} recon {recon.item():.2f} kl {kl.item():.2f}")
