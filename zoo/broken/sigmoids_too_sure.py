"""Sigmoid layers drawn from N(0, 3): the first loss is twelve times that of chance.

cause: WeightsTooLarge,SaturatedLayer
where: .*
step: 0
"""

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 294, 32, 0.006
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = make_moons(1000, noise=0.2, random_state=SEED)
X = (X - X.min(0)) / (X.max(0) - X.min(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(2, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, WIDTH), nn.Sigmoid()
        )
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.body(x)
        return self.head(h)


model = Net()

for p in model.parameters():
    if p.dim() > 1:
        nn.init.normal_(p, 0, 3.0)

optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.BCEWithLogitsLoss()


def train_one_epoch(loader, epoch):
    total = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        out = model(xb)
        loss = criterion(out, yb)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


train_loader = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True)
for epoch in range(14):
    mean = train_one_epoch(train_loader, epoch)
    print(f"epoch {epoch}: {mean:.4f}")
