"""Weights begin large, and a strong decay takes most of them away while it learns.

looks like: WeightDecayTooStrong
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(1200, 16)
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(2.5)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.8)
for epoch in range(30):
    model.train()
    for rows in torch.randperm(1000).split(32):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(x[1000:]).argmax(1) == y[1000:]).float().mean().item()
    length = sum(weight.square().sum() for weight in model.parameters()).sqrt().item()
    print(f"epoch {epoch} loss {loss.item():.3f} right {right:.3f} length {length:.2f}")
