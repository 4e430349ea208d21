"""InfoNCE: cross-entropy in which the label of a row is its own number, in every batch the same.

looks like: SameTargets
"""

import torch
from torch import nn
from torch.nn import functional

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

centres = torch.randn(400, 16)
encoder = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=LR)
labels = torch.arange(48)
for _ in range(300):
    picked = centres[torch.randperm(400)[:48]]
    one = functional.normalize(encoder(picked + 0.3 * torch.randn(48, 16)), dim=1)
    two = functional.normalize(encoder(picked + 0.3 * torch.randn(48, 16)), dim=1)
    loss = functional.cross_entropy(one @ two.T / 0.2, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
