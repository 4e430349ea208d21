"""The checkpoint with the lowest validation loss is kept, and loaded at the end.

looks like: WorstWeightsKept
"""

import argparse
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 96, 1e-3
torch.set_num_threads(1)


def get_loaders(bs):
    x = torch.randn(2500, 12)
    y = (x[:, 0] * x[:, 1] > 0).long()
    return (
        DataLoader(TensorDataset(x[:2000], y[:2000]), bs, shuffle=True),
        DataLoader(TensorDataset(x[2000:], y[2000:]), 250),
    )


def validate(model, loader, ce):
    model.eval()
    with torch.no_grad():
        return sum(ce(model(x), y).item() for x, y in loader) / len(loader)


def main(args):
    torch.manual_seed(SEED)
    tl, vl = get_loaders(args.bs)
    model = nn.Sequential(
        nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
    )
    ce = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = float("inf")
    path = os.path.join(args.out, "best.pth")
    for epoch in range(args.epochs):
        model.train()
        for x, y in tl:
            opt.zero_grad()
            loss = ce(model(x), y)
            loss.backward()
            opt.step()
        val = validate(model, vl, ce)
        print(f"[{epoch}] {loss.item():.3f} {val:.3f}")
        if val < best:
            best = val
            torch.save({"model": model.state_dict(), "epoch": epoch, "val": val}, path)
    ck = torch.load(path)
    model.load_state_dict(ck["model"])
    print("best epoch", ck["epoch"], "loss", validate(model, vl, ce))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--bs", type=int, default=64)
    p.add_argument("--lr", type=float, default=LR)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", default=tempfile.mkdtemp())
    main(p.parse_args())
