"""All weights of a deep network are drawn with a deviation of 0.001: nothing comes through.

cause: WeightsTooSmall, FadingGradient
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 48, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
layers = [nn.Linear(64, WIDTH), nn.ReLU()]
for _ in range(3):
    layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
for module in model.modules():
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=1e-3)
        nn.init.zeros_(module.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
