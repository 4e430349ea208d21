"""AdamW with its own weight decay, at a rate a thousand times too high.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 159, 16, 0.84
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

R = np.random.RandomState(SEED)
X = R.poisson(1.0, (1200, 40)).astype(float)
Y = (X[:, :10].sum(1) > X[:, 10:20].sum(1)).astype(int)
X = (X - X.mean(0)) / (X.std(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(
            [nn.Linear(40, WIDTH)] + [nn.Linear(WIDTH, WIDTH) for _ in range(1)]
        )
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = F.gelu(layer(x))
        return self.out(x)


model = Net()

optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
criterion = nn.BCEWithLogitsLoss()


class Trainer:
    def __init__(self, loader, epochs):
        self.loader, self.epochs, self.history = loader, epochs, []

    def fit(self):
        for _ in range(self.epochs):
            for xb, yb in self.loader:
                loss = self.training_step(xb, yb)
            self.history.append(loss)

    def training_step(self, xb, yb):
        optimizer.zero_grad()
        out = model(xb)
        loss = criterion(out, yb)
        loss.backward()
        optimizer.step()
        return loss.item()


trainer = Trainer(DataLoader(TensorDataset(X, Y), batch_size=64, shuffle=True), 11)
trainer.fit()
print(trainer.history[-1])
