"""RMSprop with a learning rate of 0.3: the loss goes up and down and never settles.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 0.3
torch.manual_seed(SEED)
torch.set_num_threads(1)
rng = np.random.default_rng(SEED)


def spiral(n, classes=3):
    xs, ys = [], []
    for k in range(classes):
        r = np.linspace(0.05, 1, n)
        t = np.linspace(k * 4, (k + 1) * 4, n) + rng.normal(0, 0.2, n)
        xs.append(np.c_[r * np.sin(t), r * np.cos(t)])
        ys.append(np.full(n, k))
    return torch.tensor(np.concatenate(xs)).float(), torch.tensor(np.concatenate(ys)).long()


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)
        self.history = []

    def fit(self, x, y, epochs, batch_size):
        for epoch in range(epochs):
            order = torch.randperm(len(x))
            for i in range(0, len(x), batch_size):
                self.history.append(
                    self.train_step(x[order[i : i + batch_size]], y[order[i : i + batch_size]])
                )
            if epoch % 10 == 9:
                print(f"epoch {epoch + 1} loss {self.history[-1]:.3f}")

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


x, y = spiral(200)
net = nn.Sequential(
    nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3)
)
Trainer(net, LR).fit(x, y, epochs=40, batch_size=32)
