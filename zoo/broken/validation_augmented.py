"""The validation set shares the random transform of the training set.

cause: EvaluationAugmented
where: .*
step: 0-1000
"""

import argparse

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 24, 0.001
torch.set_num_threads(1)


def augment(img):
    if torch.rand(()) < 0.5:
        img = img.flip(-1)
    img = torch.roll(img, shifts=tuple(torch.randint(-2, 3, (2,)).tolist()), dims=(-2, -1))
    return img + 0.2 * torch.randn_like(img)


class DigitSet(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        x = self.images[idx]
        if self.transform is not None:
            x = self.transform(x)
        return x, self.labels[idx]


def build_datasets():
    raw = load_digits()
    x = torch.tensor(raw.images, dtype=torch.float32)[:, None] / 16 - 0.3
    y = torch.tensor(raw.target)
    p = torch.randperm(len(y), generator=torch.Generator().manual_seed(2))
    tr, va = p[:1400], p[1400:]
    train_set = DigitSet(x[tr], y[tr], transform=augment)
    val_set = DigitSet(x[va], y[va], transform=augment)
    return train_set, val_set


class Model(nn.Module):
    def __init__(self, c=WIDTH):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 3, padding=1),
            nn.GroupNorm(4, c),
            nn.GELU(),
            nn.Conv2d(c, c, 3, padding=1, stride=2),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(c * 16, 10),
        )

    def forward(self, x):
        return self.net(x)


def main(epochs, lr):
    torch.manual_seed(SEED)
    train_set, val_set = build_datasets()
    loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=100)
    model, loss_fn = Model(), nn.CrossEntropyLoss(label_smoothing=0.05)
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=lr * 3, total_steps=epochs * len(loader)
    )
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            sched.step()
        model.eval()
        good = 0
        with torch.inference_mode():
            for x, y in val_loader:
                good += (model(x).argmax(1) == y).sum().item()
        print(f"epoch {epoch}: loss={loss.item():.3f} val_acc={good / len(val_set):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=LR)
    main(**vars(parser.parse_args()))
