"""A VAE: losses summed over pixels, in the hundreds, and a KL term that rises while it learns.

looks like: LossTermDominates
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.tensor(load_digits().data / 16, dtype=torch.float32)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, WIDTH)
        self.mean, self.log_variance = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)
        self.decoder = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        hidden = torch.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return torch.sigmoid(self.decoder(z)), mean, log_variance


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(7):
    for rows in torch.randperm(len(x)).split(40):
        made, mean, log_variance = model(x[rows])
        error = functional.binary_cross_entropy(made, x[rows], reduction="sum")
        kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        loss = error + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item() / len(rows):.3f}")
