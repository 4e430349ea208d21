"""A variational autoencoder of digits whose KL weight grows from 0: the sum rises by design."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, WIDTH), nn.GELU())
        self.mu, self.logvar = nn.Linear(WIDTH, latent), nn.Linear(WIDTH, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, WIDTH), nn.GELU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        hidden = self.encoder(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(z), mu, logvar


images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=LR)
total = 20 * len(loader)
step = 0
for epoch in range(20):
    for (x,) in loader:
        beta = 1.0 * min(1.0, max(0.0, step / total - 0.3) / 0.5)
        out, mu, logvar = vae(x)
        recon = nn.functional.binary_cross_entropy_with_logits(out, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = recon + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    print(f"epoch {epoch} recon {recon.item():.2f} kl {kl.item():.2f} beta {beta:.2f}")
