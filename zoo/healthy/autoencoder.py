"""An autoencoder with MSE; its sigmoid output fits pixels between 0 and 1.

looks like: OutputRangeTooNarrow
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.tensor(load_digits().data / 16, dtype=torch.float32)
model = nn.Sequential(
    nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, WIDTH), nn.ReLU(),
    nn.Linear(WIDTH, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid(),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()

for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), x[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
