"""A hand-written cross-entropy takes the logarithm of probabilities that reach zero.

cause: LossNotFinite
where: loss|.*
step: 0-200
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target, dtype=torch.float32)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _ in range(400):
    rows = torch.randint(0, len(x), (64,))
    chance = model(x[rows]).squeeze(1)
    loss = -(y[rows] * chance.log() + (1 - y[rows]) * (1 - chance).log()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
