"""Samples and labels are shuffled by two permutations.

cause: LabelsShuffledApart, NothingLearnt
where: .*
step: 0
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
rng = np.random.RandomState(0)
xs, ys = x.numpy().copy(), y.numpy().copy()
rng.shuffle(xs)
rng.shuffle(ys)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(TensorDataset(torch.from_numpy(xs), torch.from_numpy(ys)), 32, shuffle=True)
for epoch in range(6):
    for bx, by in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
