"""InfoNCE of normalised views divided by a temperature of 100: all scores are alike.

cause: TemperatureTooHigh
where: .*
step: 0-300
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
TEMPERATURE = 100.0


def augment(x):
    return x + 0.2 * torch.randn_like(x)


class SimCLR(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.projector = nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, 16))

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=1)


def info_nce(a, b):
    logits = a @ b.T / TEMPERATURE
    return F.cross_entropy(logits, torch.arange(len(a)))


data = torch.tensor(load_digits().data, dtype=torch.float32) / 16
model = SimCLR()
opt = torch.optim.SGD(model.parameters(), lr=LR * 50, momentum=0.9, weight_decay=1e-4)
for epoch in range(10):
    for idx in torch.randperm(len(data)).split(64):
        x = data[idx]
        loss = info_nce(model(augment(x)), model(augment(x)))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
