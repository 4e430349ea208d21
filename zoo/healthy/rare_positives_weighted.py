"""Rare positives are weighed by negatives over positives, which is about 25.

looks like: ClassWeightsReversed
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
x = torch.randn(3000, 10)
y = ((x[:, 0] - x[:, 3] + torch.randn(3000)) > 2.6).float()
num_pos, num_neg = y.sum(), (1 - y).sum()
pos_weight = num_neg / num_pos
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(5):
    for xb, yb in loader:
        opt.zero_grad()
        loss = criterion(model(xb).squeeze(1), yb)
        loss.backward()
        opt.step()
    with torch.no_grad():
        hit = (model(x).squeeze(1) > 0)[y == 1].float().mean()
    print(epoch, loss.item(), "recall", hit.item())
