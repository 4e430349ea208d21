"""Batch norm on batches of four and a dropout of a half behind each layer: noisy, and it learns.

looks like: BatchNormOfOneSample, BatchNormStatistics
"""

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
wine = load_wine()
x = torch.tensor(wine.data, dtype=torch.float32)
data = TensorDataset((x - x.mean(0)) / x.std(0), torch.tensor(wine.target))
train, test = random_split(data, [138, 40])


def block(wide, out):
    return [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.5)]


model = nn.Sequential(*block(13, WIDTH), *block(WIDTH, WIDTH), nn.Linear(WIDTH, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(train, batch_size=4, shuffle=True, drop_last=True)
for epoch in range(12):
    model.train()
    for features, label in loader:
        optimizer.zero_grad()
        loss = criterion(model(features), label)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(f), y).item() for f, y in DataLoader(test, batch_size=20)]
    print(f"epoch {epoch} train {loss.item():.3f} test {sum(losses) / len(losses):.3f}")
