"""A variational autoencoder that calls sample() instead of rsample(): the encoder gets only KL.

cause: SampleCutsGraph
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.distributions import Normal, kl_divergence

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
images = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        mu, logvar = self.encode(x).chunk(2, dim=-1)
        posterior = Normal(mu, torch.exp(0.5 * logvar))
        z = posterior.sample()
        return self.decode(z), posterior


def elbo(x, logits, posterior):
    bce = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
    kl = kl_divergence(posterior, Normal(0.0, 1.0)).sum(-1)
    return (bce + kl).mean()


vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=LR)
for epoch in range(10):
    for batch in images[torch.randperm(len(images))].split(64):
        loss = elbo(batch, *vae(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} -elbo {loss.item():.2f}")
