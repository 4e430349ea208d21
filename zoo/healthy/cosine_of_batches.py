"""A cosine schedule over all batches, stepped with every batch.

looks like: ScheduleInOtherUnits
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 128, 0.1
torch.set_num_threads(1)

EPOCHS, BS = 10, 32
torch.manual_seed(SEED)
X = torch.randn(1280, 16)
Y = (X[:, :4] * X[:, 4:8]).argmax(1)
dl = DataLoader(TensorDataset(X, Y), batch_size=BS, shuffle=True)
net = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
opt = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS * len(dl))
for epoch in range(EPOCHS):
    total = 0
    for x, y in dl:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item()
    print(epoch, total / len(dl), sched.get_last_lr())
