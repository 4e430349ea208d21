"""Only the decoder's parameters are given to the optimizer; the encoder stays as it was made.

cause: ParametersNotOptimized
where: encoder
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, WIDTH))
        self.decoder = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x))


x = torch.tensor(load_digits().data / 16, dtype=torch.float32)
model = Autoencoder()
optimizer = torch.optim.Adam(model.decoder.parameters(), lr=LR)

for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x[rows]), x[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
