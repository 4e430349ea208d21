"""Reconstruction is averaged over pixels, KL summed over latents: every input gets one picture.

cause: OutputIgnoresInput
where: .*
step: 0-230
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class VariationalAutoencoder(nn.Module):
    def __init__(self, z_dim):
        super().__init__()
        self.fc1 = nn.Linear(64, WIDTH)
        self.fc_mu = nn.Linear(WIDTH, z_dim)
        self.fc_logvar = nn.Linear(WIDTH, z_dim)
        self.fc3 = nn.Linear(z_dim, WIDTH)
        self.fc4 = nn.Linear(WIDTH, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc_mu(h), self.fc_logvar(h)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


data = torch.tensor(load_digits().data, dtype=torch.float32) / 16
model = VariationalAutoencoder(8)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(14):
    shuffled = data[torch.randperm(len(data))]
    for start in range(0, len(shuffled), 64):
        x = shuffled[start : start + 64]
        recon, mu, logvar = model(x)
        recon_loss = F.mse_loss(recon, x)
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
        loss = recon_loss + kld
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{epoch}: recon {recon_loss.item():.4f} kl {kld.item():.4f}")
