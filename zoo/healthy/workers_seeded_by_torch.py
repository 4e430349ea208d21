"""worker_init_fn seeds numpy by torch's seed, which differs in each epoch.

looks like: WorkersSeededAlike
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3


class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        digits = load_digits()
        self.x = (digits.data[:900] / 16).astype("float32")
        self.y = digits.target[:900]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.3 * np.random.randn(64).astype("float32"), self.y[i]


def seed(worker):
    np.random.seed(torch.initial_seed() % 2**32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    loader = torch.utils.data.DataLoader(
        Noisy(), 30, shuffle=True, num_workers=2, worker_init_fn=seed
    )
    for epoch in range(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
