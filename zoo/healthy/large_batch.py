"""Batches of 512 with a linear warm-up to a large rate, Nesterov momentum and a cosine after it."""

import math

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.8
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(4096, 20)
y = (torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] > 0).long() + 2 * (x[:, 3] > 0).long()
net = nn.Sequential(
    nn.Linear(20, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH),
    nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4),
)  # fmt: skip
optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9, nesterov=True, weight_decay=1e-4)
STEPS, WARM = 240, 40


def factor(step):
    if step < WARM:
        return (step + 1) / WARM
    return 0.5 * (1 + math.cos(math.pi * (step - WARM) / (STEPS - WARM)))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
step = 0
while step < STEPS:
    for batch in torch.randperm(len(x)).split(512):
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        net.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
    print(f"{step} loss {loss.item():.3f} rate {scheduler.get_last_lr()[0]:.3f}")
