"""The iterator of the validation is made once: from the second epoch on it has no batch.

cause: IteratorUsedUp
where: .*
step: 0-50
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train = DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True)
test = DataLoader(TensorDataset(x[1400:], y[1400:]), 64)
validation = iter(test)
for epoch in range(5):
    model.train()
    for bx, by in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
    model.eval()
    total = seen = 0
    with torch.no_grad():
        for bx, by in validation:
            total += nn.functional.cross_entropy(model(bx), by, reduction="sum").item()
            seen += len(by)
    print(epoch, loss.item(), total / max(1, seen))
