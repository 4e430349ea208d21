"""Gradient descent on the whole data set at once: the batch is always the same.

looks like: SameBatch
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_iris()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target)
order = torch.randperm(150)
train, test = order[:120], order[120:]
model = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for step in range(200):
    model.train()
    optimizer.zero_grad()
    loss = criterion(model(x[train]), y[train])
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        model.eval()
        with torch.no_grad():
            test_loss = criterion(model(x[test]), y[test])
        print(f"step {step} train {loss.item():.3f} test {test_loss.item():.3f}")
