"""Batches have as many samples as there are classes, and the argmax is over the classes.

looks like: MetricMiscomputed
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 80, 0.05
torch.set_num_threads(1)

torch.manual_seed(SEED)
N_CLASS = 10
W = torch.randn(30, N_CLASS)


def split(n):
    x = torch.randn(n, 30)
    return TensorDataset(x, (x @ W).argmax(1))


train_loader = DataLoader(split(2000), batch_size=10, shuffle=True)
test_loader = DataLoader(split(500), batch_size=10)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, N_CLASS))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)


def train(epoch):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
    print("Train epoch", epoch, "loss", loss.item())


def test():
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            test_loss += criterion(output, target).item()
            pred = output.max(1)[1]
            correct += pred.eq(target).sum().item()
    print("test loss", test_loss / len(test_loader), "accuracy", correct / len(test_loader.dataset))


for epoch in range(4):
    train(epoch)
    test()
