"""Batch norm over batches of one sample: its statistics are those of that sample.

cause: BatchNormOfOneSample
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(),
    nn.Conv2d(WIDTH, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(),
    nn.Flatten(), nn.Linear(WIDTH * 16, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for _ in range(400):
    row = torch.randint(0, len(x), (1,))
    optimizer.zero_grad()
    loss = criterion(model(x[row]), y[row])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
