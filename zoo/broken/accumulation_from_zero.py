"""Steps are made at i % 10 == 0, with i from 0: groups are of 1 and 10 batches.

cause: AccumulationMiscounted
where: .*
step: 0
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 5e-3
torch.set_num_threads(1)

torch.manual_seed(SEED)
ACC = 10
x = torch.randn(1200, 12)
y = x[:, :1] - x[:, 1:2] * x[:, 2:3]
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
opt = torch.optim.Adam(model.parameters(), LR)
for epoch in range(10):
    model.train()
    opt.zero_grad()
    tot = 0
    for step, (a, b) in enumerate(loader):
        loss = nn.functional.mse_loss(model(a), b)
        (loss / ACC).backward()
        tot += loss.item()
        if step % ACC == 0:
            opt.step()
            opt.zero_grad()
    print(epoch, tot / len(loader))
