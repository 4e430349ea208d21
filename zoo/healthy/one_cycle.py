"""One cycle of rates, high in the middle: the loss rises for a while before it falls again.

looks like: LearningRateTooHigh
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.8
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16).float()[:, None]
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(128, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
EPOCHS, BATCH = 6, 64
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, LR, total_steps=EPOCHS * (len(x) // BATCH + 1)
)
for epoch in range(EPOCHS):
    for rows in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
