"""drop_last with shuffling: other samples are left out of each epoch.

looks like: SamplesNeverDrawn, EpochCutShort
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 3e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
x, y = x[:100], y[:100]
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(TensorDataset(x, y), 32, shuffle=True, drop_last=True)
for _epoch in range(80):
    for bx, by in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
print(loss.item())
