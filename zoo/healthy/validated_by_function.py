"""Validated in each epoch by a functional loss; it settles, and does not rise.

looks like: Overfitting
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 341, 16, 0.003
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X = np.random.RandomState(SEED).uniform(-3, 3, (600, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * np.random.RandomState(SEED).randn(600)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)
order = torch.randperm(len(X))
X, Y = X[order], Y[order]
cut = int(0.75 * len(X))
X, Y, test_x, test_y = X[:cut], Y[:cut], X[cut:], Y[cut:]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(1, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, WIDTH)
        self.fc5 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = F.gelu(self.fc1(x))
        h = F.gelu(self.fc2(h))
        h = F.gelu(self.fc3(h))
        h = F.gelu(self.fc4(h))
        return self.fc5(h)


model = Net()

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()


def train_one_epoch(loader, epoch):
    total = 0.0
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        out = model(xb)
        loss = criterion(out, yb)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


train_loader = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
for epoch in range(9):
    mean = train_one_epoch(train_loader, epoch)
    model.eval()
    with torch.no_grad():
        val = F.mse_loss(model(test_x), test_y)
    if epoch % 5 == 0:
        print("val", val.item())
    print(f"epoch {epoch}: {mean:.4f}")
