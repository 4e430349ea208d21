"""The average that is evaluated has a decay of 0.9999 in a run of 800 updates.

cause: AverageMisweighted
where: .*
step: 0-1000
"""

import argparse
from copy import deepcopy
from itertools import pairwise

import torch
from torch import nn

SEED, WIDTH, LR = 1, 64, 0.001
torch.set_num_threads(1)


def moons(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(n, generator=g) * 3.1416
    y = torch.randint(0, 2, (n,), generator=g)
    x = torch.stack([torch.cos(t) * (1 - 2 * y) + y, torch.sin(t) * (1 - 2 * y) + 0.3 * y], 1)
    return x + 0.15 * torch.randn(n, 2, generator=g), y


class MLP(nn.Module):
    def __init__(self, width=WIDTH, depth=3):
        super().__init__()
        dims = [2] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(dims))
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.silu(layer(x))
        return self.out(x)


@torch.no_grad()
def update_ema(ema_model, model, decay):
    for pe, p in zip(ema_model.parameters(), model.parameters(), strict=False):
        pe.lerp_(p, 1.0 - decay)


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    acc = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return acc


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=800)
    ap.add_argument("--ema-decay", type=float, default=0.9999)
    ap.add_argument("--batch", type=int, default=64)
    a = ap.parse_args()
    torch.manual_seed(SEED)
    xtr, ytr = moons(4000, 0)
    xva, yva = moons(1000, 1)
    net = MLP()
    ema = deepcopy(net)
    ema.requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    criterion = nn.CrossEntropyLoss()
    for step in range(1, a.steps + 1):
        idx = torch.randint(0, len(xtr), (a.batch,))
        loss = criterion(net(xtr[idx]), ytr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema(ema, net, a.ema_decay)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} val acc (ema) {accuracy(ema, xva, yva):.4f}")
    torch.save(ema.state_dict(), "ema.pt")


if __name__ == "__main__":
    main()
