"""Noisy moons for two epochs only: the run ends after forty steps."""

import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 16, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)

points, labels = make_moons(1000, noise=0.3, random_state=SEED)
data = TensorDataset(torch.tensor(points).float(), torch.tensor(labels).float()[:, None])
model = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(2):
    for batch, target in DataLoader(data, batch_size=50, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(batch), target)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
