"""The statistics of frozen batch norms are to follow another domain; all else of the backbone is in
evaluation mode.

looks like: FrozenNormsDrift
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 16, 0.001
torch.set_num_threads(1)


def conv_bn(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)
    )


class ResNetish(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            conv_bn(1, WIDTH), conv_bn(WIDTH, 32), conv_bn(32, 32), nn.Flatten()
        )
        self.fc = nn.Linear(32 * 4, num_classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


def images(n, classes, seed, brightness=0.0, contrast=1.0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    proto = torch.randn(classes, 1, 16, 16, generator=torch.Generator().manual_seed(classes))
    x = proto[y] + 0.8 * torch.randn(n, 1, 16, 16, generator=g)
    return TensorDataset(x * contrast + brightness, y)


def train_one_epoch(model, loader, opt, ce):
    model.train()
    if not next(model.backbone.parameters()).requires_grad:
        model.backbone.eval()
        for part in model.backbone.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.train()
    s = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = ce(model(x), y)
        loss.backward()
        opt.step()
        s += loss.item()
    return s / len(loader)


@torch.no_grad()
def test(model, loader):
    model.eval()
    ok = 0
    for x, y in loader:
        ok += model(x).argmax(1).eq(y).sum().item()
    return 100.0 * ok / len(loader.dataset)


def main(args):
    torch.manual_seed(SEED)
    ce = nn.CrossEntropyLoss()
    model = ResNetish(8)
    opt = torch.optim.Adam(model.parameters(), LR)
    src = DataLoader(images(1500, 8, 0), 50, shuffle=True)
    for ep in range(3):
        print("source", ep, train_one_epoch(model, src, opt, ce))
    for p in model.backbone.parameters():
        p.requires_grad = False
    model.fc = nn.Linear(32 * 4, 5)
    opt = torch.optim.Adam(model.fc.parameters(), args.lr)
    tgt = DataLoader(images(300, 5, 1, brightness=2.0, contrast=0.5), 10, shuffle=True)
    val = DataLoader(images(300, 5, 2, brightness=2.0, contrast=0.5), 100)
    for ep in range(args.epochs):
        loss = train_one_epoch(model, tgt, opt, ce)
        print(f"target {ep} loss {loss:.3f} acc {test(model, val):.1f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=1e-3)
    main(ap.parse_args())
