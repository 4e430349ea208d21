"""Mean losses of batches are added up and divided by the number of batches.

looks like: MetricMiscomputed
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 128, 1e-3
torch.set_num_threads(1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_epoch(self, loader):
        self.model.train()
        running = 0.0
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            running += loss.item()
        return running / len(loader)

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        running = 0.0
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            running += loss.item()
        return running / len(loader)


torch.manual_seed(SEED)
X = torch.randn(2000, 10)
Y = torch.sin(X.sum(1, keepdim=True)) + 0.1 * torch.randn(2000, 1)
tl = DataLoader(TensorDataset(X[:1600], Y[:1600]), 32, shuffle=True)
vl = DataLoader(TensorDataset(X[1600:], Y[1600:]), 40)
t = Trainer(
    nn.Sequential(
        nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    ),
    LR,
)
best = float("inf")
for epoch in range(8):
    a, b = t.train_epoch(tl), t.validate(vl)
    if b < best:
        best = b
        torch.save(t.model.state_dict(), "best.pt")
    print(f"epoch {epoch}: train {a:.4f} val {b:.4f}")
