"""The first update is many times the weights, the loss 300000; then all is learnt by heart.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 325, 48, 4.3
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / (X.std(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(30, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = F.leaky_relu(self.fc1(x), 0.1)
        h = F.leaky_relu(self.fc2(h), 0.1)
        return self.fc3(h)


model = Net()

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()

loader = DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)
for epoch in range(32):
    for xb, yb in loader:
        optimizer.zero_grad()
        out = model(xb)
        loss = criterion(out, yb)
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
