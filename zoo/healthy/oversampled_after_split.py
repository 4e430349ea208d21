"""The rare class is oversampled in the training part only.

looks like: TrainedOnEvaluationData
"""

import argparse

import numpy as np
import torch
import torch.nn as nn
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.001
torch.set_num_threads(1)


def fraud_table(n=2200, d=20, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    score = x[:, 0] + 0.8 * x[:, 1] * x[:, 2] + rng.normal(scale=0.8, size=n)
    y = (score > np.quantile(score, 0.9)).astype(np.float32)
    return x, y


def oversample(x, y, rng):
    pos = np.where(y == 1)[0]
    extra = rng.choice(pos, size=int((y == 0).sum() - len(pos)))
    keep = np.concatenate([np.arange(len(y)), extra])
    return x[keep], y[keep]


class Tabular(nn.Module):
    def __init__(self, d, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def prepare(args):
    rng = np.random.default_rng(1)
    x, y = fraud_table()
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=0, stratify=y)
    xt, yt = oversample(xt, yt, rng)

    def as_set(a, b):
        return TensorDataset(torch.from_numpy(a), torch.from_numpy(b))

    return (DataLoader(as_set(xt, yt), args.batch, shuffle=True), DataLoader(as_set(xv, yv), 256))


def evaluate(model, loader):
    model.eval()
    tp = fp = fn = 0
    with torch.no_grad():
        for x, y in loader:
            pred = (model(x) > 0).float()
            tp += (pred * y).sum().item()
            fp += (pred * (1 - y)).sum().item()
            fn += ((1 - pred) * y).sum().item()
    return 2 * tp / max(1.0, 2 * tp + fp + fn)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(SEED)
    train, val = prepare(args)
    model = Tabular(20, WIDTH)
    opt = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=1e-4)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        for x, y in train:
            loss = bce(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} F1 {evaluate(model, val):.3f}")


if __name__ == "__main__":
    main()
