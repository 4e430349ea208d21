"""Every fourth batch has a second backward, of a penalty, before its step.

looks like: AccumulationCleared
"""

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
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
every = 4
for epoch in range(5):
    for i, (bx, by) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        if (i + 1) % every == 0:
            (0.01 * model(bx).square().mean()).backward()
        optimizer.step()
    print(epoch, loss.item())
