"""The temperature divides the student's scores and not the teacher's.

cause: TemperatureOnOneSide
where: .*
step: 0-1000
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 24, 0.001
torch.set_num_threads(1)


def mlp(sizes, p):
    mods = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=False)):
        mods.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            mods += [nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(p)]
    return nn.Sequential(*mods)


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 8, (n,), generator=g)
    c = torch.randn(8, 30, generator=torch.Generator().manual_seed(55))
    return TensorDataset(c[y] + 1.2 * torch.randn(n, 30, generator=g), y)


def fit_teacher(teacher, loader, epochs):
    opt = torch.optim.Adam(teacher.parameters(), 1e-3)
    teacher.train()
    for e in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(teacher(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"teacher epoch {e} loss {loss.item():.4f}")


def kd_loss(s, t, y, T, alpha):
    soft = F.kl_div(F.log_softmax(s / T, 1), F.softmax(t, 1), reduction="batchmean") * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(s, y)


def distill(student, teacher, loader, val, args):
    opt = torch.optim.Adam(student.parameters(), args.lr)
    teacher.eval()
    for e in range(args.epochs):
        student.train()
        for x, y in loader:
            with torch.no_grad():
                t = teacher(x)
            loss = kd_loss(student(x), t, y, args.temperature, args.alpha)
            opt.zero_grad()
            loss.backward()
            opt.step()
        student.eval()
        with torch.no_grad():
            acc = sum((student(x).argmax(1) == y).sum().item() for x, y in val) / len(val.dataset)
        print(f"student epoch {e} loss {loss.item():.4f} acc {acc:.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--temperature", type=float, default=4.0)
    ap.add_argument("--alpha", type=float, default=0.9)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=LR)
    args = ap.parse_args()
    torch.manual_seed(SEED)
    train, val = (
        DataLoader(blobs(3000, 0), 64, shuffle=True, drop_last=True),
        DataLoader(blobs(600, 1), 200),
    )
    teacher, student = mlp([30, 256, 256, 8], 0.5), mlp([30, WIDTH, 8], 0.0)
    fit_teacher(teacher, train, 6)
    distill(student, teacher, train, val, args)
