"""The average that is evaluated has batch norms as at first; there are two validation batches.

cause: BatchNormStatistics
where: .*
step: 0-1000
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 24, 0.02
torch.set_num_threads(1)


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters(), strict=False):
            e.mul_(self.decay).add_(p, alpha=1 - self.decay)


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(1, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH)
        self.c2, self.b2 = nn.Conv2d(WIDTH, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.fc = nn.Linear(32 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.max_pool2d(F.relu(self.b2(self.c2(x))), 2)
        return self.fc(x.flatten(1))


def loaders(batch):
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1)
    y = torch.tensor(d.target)
    perm = torch.randperm(len(y), generator=torch.Generator().manual_seed(5))
    x, y = x[perm], y[perm]
    return (
        DataLoader(TensorDataset(x[:1400], y[:1400]), batch, shuffle=True),
        DataLoader(TensorDataset(x[1400:], y[1400:]), 200),
    )


def evaluate(model, loader):
    model.eval()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
    n = len(loader.dataset)
    return loss / n, correct / n


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--decay", type=float, default=0.97)
    args = parser.parse_args()
    torch.manual_seed(SEED)
    train_loader, val_loader = loaders(32)
    model = SmallCNN()
    ema = EMA(model, args.decay)
    opt = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=1e-4)
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
        val_loss, acc = evaluate(ema.module, val_loader)
        print(f"epoch {epoch} train {loss.item():.3f} ema val loss {val_loss:.3f} acc {acc:.3f}")
