"""Weights drawn from N(0, 3): every tanh sits at its end, where it has no slope.

cause: WeightsTooLarge, SaturatedLayer
where: 0|1|2|3
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Linear(64, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 10)
)
for layer in (model[0], model[2]):
    nn.init.normal_(layer.weight, std=3.0)
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for _ in range(250):
    rows = torch.randint(0, len(x), (32,))
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
