"""A model that the script has pretrained is loaded and adapted to another task.

looks like: LossJumpsAtResume
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 48, 0.002
torch.set_num_threads(1)


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=4, alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scale


class Backbone(nn.Module):
    def __init__(self, d=WIDTH):
        super().__init__()
        self.inp = nn.Linear(20, d)
        self.fc1 = nn.Linear(d, d)
        self.fc2 = nn.Linear(d, d)
        self.head = nn.Linear(d, 6)

    def forward(self, x):
        x = F.gelu(self.inp(x))
        x = x + F.gelu(self.fc1(x))
        x = x + F.gelu(self.fc2(x))
        return self.head(x)


def task(seed, shift, n):
    g = torch.Generator().manual_seed(99)
    w = torch.randn(20, 6, generator=g)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    return TensorDataset(x, ((x.roll(shift, 1)) @ w).argmax(1))


def inject(model, r):
    for p in model.parameters():
        p.requires_grad_(False)
    model.fc1 = LoRALinear(model.fc1, r)
    model.fc2 = LoRALinear(model.fc2, r)
    model.head.weight.requires_grad_(True)
    model.head.bias.requires_grad_(True)


def run_epoch(model, loader, optimizer):
    model.train()
    tot = 0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tot += loss.item()
    return tot / len(loader)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rank", type=int, default=4)
    ap.add_argument("--lr", type=float, default=LR)
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(SEED)
    model = Backbone()
    pre = DataLoader(task(0, 0, 3000), 64, shuffle=True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for e in range(4):
        print("pretrain", e, run_epoch(model, pre, opt))
    torch.save(model.state_dict(), "base.pt")

    model = Backbone()
    model.load_state_dict(torch.load("base.pt"))
    train, val = DataLoader(task(1, 3, 2000), 32, shuffle=True), DataLoader(task(2, 3, 500), 100)
    inject(model, args.rank)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    for e in range(args.epochs):
        loss = run_epoch(model, train, optimizer)
        print(f"finetune {e} loss {loss:.4f} acc {evaluate(model, val):.4f}")


if __name__ == "__main__":
    main()
