"""A linear autoencoder: two layers without activation and a narrow middle, which is PCA.

looks like: ActivationMissing
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 8, 0.005
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = torch.tensor(load_digits().data / 16).float()


class Components(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, WIDTH)
        self.decoder = nn.Linear(WIDTH, 64)

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = Components()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    for batch in digits[torch.randperm(len(digits))].split(64):
        loss = ((model(batch) - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
