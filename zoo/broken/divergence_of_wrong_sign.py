"""The divergence of a variational autoencoder has the wrong sign.

cause: DivergenceRaised
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
basis = torch.randn(4, 32)


def batch(n=64):
    return torch.sigmoid(torch.randn(n, 4) @ basis)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU())
        self.mu, self.logvar = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)
        self.dec = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 32))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=LR)
for step in range(250):
    x = batch()
    recon, mu, logvar = vae(x)
    rec = F.mse_loss(recon, x, reduction="sum") / len(x)
    kl = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    loss = rec + 0.05 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), rec.item(), kl.item())
