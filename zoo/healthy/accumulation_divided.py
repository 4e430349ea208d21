"""The gradients of eight batches are added up, each divided by eight.

looks like: AccumulationNotDivided
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.05
torch.set_num_threads(1)

ap = argparse.ArgumentParser()
ap.add_argument("--accum", type=int, default=8)
ap.add_argument("--lr", type=float, default=LR)
args = ap.parse_args()
torch.manual_seed(SEED)
x = torch.randn(2560, 16)
y = (x @ torch.randn(16, 4)).argmax(1)
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
crit = nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
for epoch in range(4):
    opt.zero_grad()
    for i, (xb, yb) in enumerate(loader):
        loss = crit(model(xb), yb) / args.accum
        loss.backward()
        if (i + 1) % args.accum == 0:
            opt.step()
            opt.zero_grad()
    print(epoch, loss.item())
