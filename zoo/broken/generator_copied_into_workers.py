"""Workers get a copy of the data set's generator in every epoch, and draw the same noise.

cause: AugmentedAlike, RepeatedBatches
where: .*
step: 0-5
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 64, 1e-3
torch.set_num_threads(1)


class Augmented(Dataset):
    def __init__(self, n=512, seed=0):
        rng = np.random.default_rng(100)
        self.y = rng.integers(0, 3, n)
        self.x = (rng.normal(size=(n, 24)) + self.y[:, None] * 0.7).astype("float32")
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = self.rng.normal(scale=0.5, size=24).astype("float32")
        return torch.from_numpy(self.x[i] + noise), int(self.y[i])


def main():
    torch.manual_seed(SEED)
    loader = DataLoader(Augmented(), batch_size=32, shuffle=True, num_workers=2)
    net = nn.Sequential(nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    for epoch in range(8):
        tot = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch} loss {tot / len(loader):.4f}")


if __name__ == "__main__":
    main()
