"""Targets in the tens of thousands; in a short training no prediction gets beyond twelve.

cause: UnnormalizedTarget
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 955, 24, 0.00074
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X = np.random.RandomState(SEED).uniform(-3, 3, (600, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * np.random.RandomState(SEED).randn(600)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)
Y = Y * 80000 + 5000


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(1, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = F.gelu(self.fc1(x))
        h = F.gelu(self.fc2(h))
        h = F.gelu(self.fc3(h))
        return self.fc4(h)


model = Net()

optimizer = torch.optim.RMSprop(model.parameters(), lr=LR)
criterion = nn.MSELoss()


class Trainer:
    def __init__(self, loader, epochs):
        self.loader, self.epochs, self.history = loader, epochs, []

    def fit(self):
        for _ in range(self.epochs):
            for xb, yb in self.loader:
                loss = self.training_step(xb, yb)
            self.history.append(loss)

    def training_step(self, xb, yb):
        out = model(xb)
        loss = criterion(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()


trainer = Trainer(DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True), 2)
trainer.fit()
print(trainer.history[-1])
