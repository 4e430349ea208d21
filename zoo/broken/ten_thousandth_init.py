"""All weights have a deviation of 0.0001; Adam needs forty steps to get out of that.

cause: WeightsTooSmall,FadingGradient
where: .*
step: 0
"""

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 858, 24, 0.0017
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = load_diabetes(return_X_y=True)
Y = (Y - Y.mean()) / Y.std()
X = (X - X.mean(0)) / (X.std(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(10, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
        )
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.body(x)
        return self.head(h)


model = Net()

for p in model.parameters():
    nn.init.normal_(p, 0, 1e-4)

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()


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


train_loader = DataLoader(TensorDataset(X, Y), batch_size=64, shuffle=True)
for epoch in range(57):
    mean = train_one_epoch(train_loader, epoch)
    print(f"epoch {epoch}: {mean:.4f}")
