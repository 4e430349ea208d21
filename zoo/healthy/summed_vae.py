"""A variational autoencoder with both terms summed, as in the examples: a loss in the thousands."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 96, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh())
        self.stats = nn.Linear(WIDTH, 2 * latent)
        self.decoder = nn.Sequential(nn.Linear(latent, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        mean, log_variance = self.stats(self.encoder(x)).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(code), mean, log_variance


def elbo(scores, x, mean, log_variance):
    likeness = F.binary_cross_entropy_with_logits(scores, x, reduction="sum")
    return likeness - 0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())


x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=LR)
for epoch in range(14):
    total = 0.0
    for batch in x[torch.randperm(len(x))].split(64):
        optimizer.zero_grad()
        loss = elbo(*(lambda out, b=batch: (out[0], b, *out[1:]))(vae(batch)))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"====> Epoch: {epoch} Average loss: {total / len(x):.4f}")
