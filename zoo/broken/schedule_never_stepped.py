"""A cosine schedule is made and never stepped.

cause: ScheduleNeverStepped
where: .*
step: 0-1000
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.003
torch.set_num_threads(1)


class AutoEncoder(nn.Module):
    def __init__(self, d=40, code=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, WIDTH), nn.ELU(), nn.Linear(WIDTH, code))
        self.dec = nn.Sequential(nn.Linear(code, 64), nn.ELU(), nn.Linear(64, d))

    def forward(self, x):
        return self.dec(self.enc(x))


def signals(n, seed):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 5, generator=g)
    mix = torch.randn(5, 40, generator=torch.Generator().manual_seed(123))
    return TensorDataset(torch.tanh(z @ mix) + 0.05 * torch.randn(n, 40, generator=g))


def train_epoch(model, loader, opt, sched):
    model.train()
    acc = 0.0
    for (x,) in loader:
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc += loss.item()
    return acc / len(loader)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    n = sq = 0
    for (x,) in loader:
        sq += (model(x) - x).pow(2).mean(1).sum().item()
        n += len(x)
    return sq / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--lr", type=float, default=LR)
    args = ap.parse_args()
    torch.manual_seed(SEED)
    train, val = DataLoader(signals(3000, 0), 50, shuffle=True), DataLoader(signals(500, 1), 250)
    model = AutoEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)
    for e in range(args.epochs):
        tr = train_epoch(model, train, opt, sched)
        print(
            f"{e} train {tr:.5f} val {validate(model, val):.5f} lr {opt.param_groups[0]['lr']:.2e}"
        )


if __name__ == "__main__":
    main()
