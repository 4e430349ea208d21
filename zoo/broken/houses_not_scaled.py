"""Square metres, years and incomes go in as they are, and one price is predicted for all.

cause: UnnormalizedInput, LearningRateTooHigh, DeadLayer
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
rng = np.random.default_rng(SEED)


class Houses(Dataset):
    def __init__(self, n=500):
        area = rng.uniform(30, 300, n)
        year = rng.integers(1900, 2024, n)
        income = rng.lognormal(10.5, 0.4, n)
        self.rows = np.stack([area, year, income], axis=1).astype(np.float32)
        self.price = (0.01 * area + 0.02 * (year - 1960) + income / 40000).astype(np.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.price[index]


model = nn.Sequential(
    nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()
for epoch in range(15):
    total = 0.0
    for rows, price in DataLoader(Houses(), batch_size=25, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(rows).squeeze(), price)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / 20:.3f}")
