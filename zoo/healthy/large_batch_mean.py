"""The mean over a batch of 256, at the same rate.

looks like: LossSummed
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 5e-2
torch.manual_seed(SEED)
x = torch.randn(4096, 16)
y = x @ torch.randn(16, 1) * 0.5 + 0.05 * torch.randn(4096, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True)
model = nn.Sequential(nn.Linear(16, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for epoch in range(12):
    for xb, yb in loader:
        loss = loss_fn(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
