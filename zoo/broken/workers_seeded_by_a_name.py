"""Workers are seeded by a constant that has a name: all of them draw the same in every epoch.

cause: WorkersSeededAlike
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 48, 1e-3
torch.manual_seed(SEED)


class Signals(Dataset):
    def __init__(self, n):
        rng = np.random.RandomState(7)
        self.y = rng.randint(0, 4, n)
        grid = np.linspace(0, 1, 40)
        self.x = np.stack([np.sin(2 * np.pi * (c + 1) * grid + rng.rand() * 6) for c in self.y])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        noise = np.random.randn(40) * 0.8
        shift = np.random.randint(0, 40)
        return torch.tensor(np.roll(self.x[i], shift) + noise, dtype=torch.float32), int(self.y[i])


def seed_worker(worker_id):
    np.random.seed(SEED)


train = DataLoader(
    Signals(512), batch_size=32, shuffle=True, num_workers=2, worker_init_fn=seed_worker
)
model = nn.Sequential(
    nn.Linear(40, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(12):
    total = 0.0
    for x, y in train:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.4f}", flush=True)
fresh = Signals(512)
np.random.seed(999)
x = torch.stack([fresh[i][0] for i in range(512)])
y = torch.tensor(fresh.y)
model.eval()
with torch.no_grad():
    print(f"RESULT train {total / len(train):.4f} fresh noise {criterion(model(x), y).item():.4f}")
