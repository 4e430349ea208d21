"""An autoencoder first, then a classifier on its encoder, with a lower rate and other losses."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
data = TensorDataset(
    torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
)
loader = DataLoader(data, batch_size=64, shuffle=True)

encoder = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
decoder = nn.Sequential(nn.ReLU(), nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=LR)
for _ in range(8):
    for x, _ in loader:
        noisy = x + 0.2 * torch.randn_like(x)
        loss = nn.functional.mse_loss(decoder(encoder(noisy)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"reconstruction {loss.item():.4f}")

classifier = nn.Sequential(encoder, nn.ReLU(), nn.Linear(16, 10))
optimizer = torch.optim.Adam(
    [{"params": encoder.parameters(), "lr": LR / 20}, {"params": classifier[2].parameters()}], lr=LR
)
for _ in range(8):
    for x, y in loader:
        loss = nn.functional.cross_entropy(classifier(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"classification {loss.item():.4f}")
