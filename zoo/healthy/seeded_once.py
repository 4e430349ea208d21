"""The seed is set once: small data come again in each epoch, in another order.

looks like: SameOrderEachEpoch
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.003
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(512, 16)
y = (x[:, 0] * x[:, 1] + 0.1 * torch.randn(512) > 0).long()
model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 2))
opt = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
for epoch in range(15):
    total = 0.0
    for a, b in loader:
        a = a + 0.1 * torch.randn_like(a)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(loader))
