"""A weighted sampler draws the rare class as often as the other, with replacement.

looks like: SamplerWeightsReversed, RepeatedBatches
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

SEED, WIDTH, LR = 0, 32, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
y = (torch.rand(1000) < 0.15).long()
x = torch.randn(1000, 12) + y[:, None] * 0.8
counts = torch.bincount(y)
weights = (1.0 / counts.double())[y]
loader = DataLoader(TensorDataset(x, y), 50, sampler=WeightedRandomSampler(weights, len(y)))
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(12):
    model.train()
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
model.eval()
with torch.no_grad():
    p = model(x).argmax(1)
print("recall", (p[y == 1] == 1).float().mean().item())
