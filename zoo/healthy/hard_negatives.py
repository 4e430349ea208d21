"""Triplets with the hardest negative of the batch: the loss stays near its margin, then falls."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
net = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
for step in range(300):
    rows = torch.randperm(len(x))[:96]
    out = F.normalize(net(x[rows]), dim=1)
    distance = 2 - 2 * out @ out.T
    same = y[rows][:, None] == y[rows][None]
    positive = (distance * same).amax(1)
    if step < 60:
        negative = (distance.masked_fill(same, 0)).sum(1) / (~same).sum(1)
    else:
        negative = distance.masked_fill(same, 9.0).amin(1)
    loss = F.relu(positive - negative + 0.3).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"{step} {loss.item():.4f}")
