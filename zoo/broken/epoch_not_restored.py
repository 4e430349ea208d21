"""The epoch is not restored, so that the rate by hand goes back to the first.

cause: RateJumpsAtResume
where: .*
step: 355-365
"""

import argparse
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.1
torch.set_num_threads(1)


def adjust_learning_rate(optimizer, epoch, args):
    lr = args.lr * 0.5 * (1 + math.cos(math.pi * epoch / args.epochs))
    for g in optimizer.param_groups:
        g["lr"] = lr
    return lr


def train_one(model, opt, loader):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def run(args, data, stop, resume=None):
    model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    start_epoch = 0
    if resume:
        ck = torch.load(resume)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["optimizer"])
    loader = DataLoader(data, 40, shuffle=True)
    for epoch in range(start_epoch, stop):
        lr = adjust_learning_rate(opt, epoch, args)
        print(epoch, lr, train_one(model, opt, loader))
        torch.save(
            {"model": model.state_dict(), "optimizer": opt.state_dict(), "epoch": epoch},
            "checkpoint.pth.tar",
        )


ap = argparse.ArgumentParser()
ap.add_argument("--lr", type=float, default=LR)
ap.add_argument("--epochs", type=int, default=12)
args = ap.parse_args()
torch.manual_seed(SEED)
x = torch.randn(1600, 10)
data = TensorDataset(x, (x[:, :3] * x[:, 3:6]).argmax(1))
run(args, data, 9)
run(args, data, args.epochs, "checkpoint.pth.tar")
