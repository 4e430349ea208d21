"""The averaged copy keeps the batch-norm statistics of the start.

cause: BatchNormStatistics
where: .*
step: 0
"""

from copy import deepcopy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 16, 0.05
torch.set_num_threads(1)


torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.conv2 = nn.Conv2d(WIDTH, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def images(n):
    y = torch.randint(0, 4, (n,))
    x = torch.randn(n, 1, 12, 12) * 2 + 3
    for i in range(n):
        k = y[i].item()
        x[i, 0, (k // 2) * 6 : (k // 2) * 6 + 6, (k % 2) * 6 : (k % 2) * 6 + 6] += torch.eye(6) * 4
    return TensorDataset(x, y)


train = DataLoader(images(1200), batch_size=48, shuffle=True, drop_last=True)
val = DataLoader(images(300), batch_size=100)
model = Net()
ema_model = deepcopy(model)
for p in ema_model.parameters():
    p.requires_grad = False


def update_ema(decay=0.95):
    with torch.no_grad():
        for e, p in zip(ema_model.parameters(), model.parameters(), strict=True):
            e.copy_(decay * e + (1 - decay) * p)


def validate(net):
    net.eval()
    loss, hit = 0.0, 0
    with torch.no_grad():
        for xb, yb in val:
            out = net(xb)
            loss += F.cross_entropy(out, yb, reduction="sum").item()
            hit += (out.argmax(1) == yb).sum().item()
    return loss / 300, hit / 300


opt = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=1e-4)
for epoch in range(6):
    model.train()
    for xb, yb in train:
        opt.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        update_ema()
    print(epoch, "train", round(loss.item(), 3), "ema val", validate(ema_model))
