"""A moving average of the weights is kept beside, and evaluated instead of the model."""

import copy

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)
table = load_diabetes()
X = torch.tensor(table.data, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
y = torch.tensor(table.target, dtype=torch.float32)
y = ((y - y.mean()) / y.std()).unsqueeze(1)


class EMA:
    def __init__(self, model, decay=0.99):
        self.copy, self.decay = copy.deepcopy(model).eval(), decay
        for p in self.copy.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.copy.parameters(), model.parameters(), strict=True):
            mine.mul_(self.decay).add_(theirs, alpha=1 - self.decay)


model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Dropout(0.3), nn.Linear(WIDTH, 1))
ema = EMA(model)
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.8)
for epoch in range(25):
    model.train()
    for rows in torch.randperm(350).split(32):
        loss = nn.functional.huber_loss(model(X[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
    with torch.no_grad():
        test = nn.functional.mse_loss(ema.copy(X[350:]), y[350:])
    print(f"epoch {epoch} test {test.item():.3f}")
