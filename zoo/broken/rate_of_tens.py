"""SGD at a rate of tens: within five steps loss and gradients are beyond all bounds.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 347, 100, 16.0
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
        self.fc1 = nn.Linear(2, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = F.silu(self.fc1(x))
        h = F.silu(self.fc2(h))
        h = F.silu(self.fc3(h))
        return self.fc4(h)


model = Net()

optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, nesterov=True)


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
        loss = F.binary_cross_entropy_with_logits(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()


trainer = Trainer(DataLoader(TensorDataset(X, Y), batch_size=64, shuffle=True), 7)
trainer.fit()
print(trainer.history[-1])
