"""Each sample's augmentation comes from a generator with the same seed.

cause: AugmentedAlike
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 128, 1e-3
torch.set_num_threads(1)


class Augmented(Dataset):
    """2-d point clouds, randomly rotated and jittered"""

    def __init__(self, n, seed=0, train=True):
        r = np.random.default_rng(seed)
        self.y = r.integers(0, 3, n)
        base = {0: (1, 1), 1: (2, 0.5), 2: (1.5, 0.2)}
        self.pts = [r.normal(size=(24, 2)) * base[k] for k in self.y]
        self.train = train

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        p = self.pts[i]
        if self.train:
            rng = np.random.default_rng(1234)
            a = rng.uniform(0, 2 * np.pi)
            rot = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
            p = p @ rot + rng.normal(size=p.shape) * 0.1
        return torch.tensor(p, dtype=torch.float32).flatten(), int(self.y[i])


torch.manual_seed(SEED)
tr = DataLoader(Augmented(900), 30, shuffle=True)
te = DataLoader(Augmented(300, 5, train=False), 100)
m = nn.Sequential(
    nn.Linear(48, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 3)
)
o = torch.optim.Adam(m.parameters(), LR)
for e in range(10):
    m.train()
    s = 0
    for x, y in tr:
        o.zero_grad()
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        s += loss.item()
    m.eval()
    with torch.no_grad():
        v = [nn.functional.cross_entropy(m(x), y).item() for x, y in te]
    print(e, s / 30, sum(v) / 3)
