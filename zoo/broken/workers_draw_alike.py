"""Each loader worker has a copy of one random generator: all workers draw the same samples.

cause: RepeatedBatches, AugmentedAlike
where: .*
step: 0-5
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Waves(Dataset):
    """Sines of a random frequency and phase, with noise; the frequency is to be told."""

    def __init__(self):
        self.random = np.random.default_rng(SEED)

    def __len__(self):
        return 320

    def __getitem__(self, index):
        frequency, phase = self.random.uniform(1, 5), self.random.uniform(0, 6.28)
        wave = np.sin(frequency * np.linspace(0, 3, 40) + phase)
        noisy = wave + self.random.normal(0, 0.2, 40)
        return torch.tensor(noisy, dtype=torch.float32), torch.tensor([frequency - 3]).float()


def train():
    loader = DataLoader(Waves(), batch_size=32, num_workers=2)
    model = nn.Sequential(nn.Linear(40, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for _ in range(30):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
    return model


model = train()
fresh = Waves()
fresh.random = np.random.default_rng(SEED + 1000)
inputs, targets = (torch.stack(each) for each in zip(*(fresh[i] for i in range(500)), strict=True))
with torch.no_grad():
    model.eval()
    print(f"loss of fresh waves {nn.functional.mse_loss(model(inputs), targets).item():.3f}")
