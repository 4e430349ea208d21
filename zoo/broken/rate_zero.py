"""The warm-up multiplies by epoch / epochs in whole numbers, so the learning rate is always 0.

cause: LearningRateZero
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_wine()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(13, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
epochs = 25
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: epoch // epochs)

for _epoch in range(epochs):
    for rows in torch.randperm(len(x)).split(16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    schedule.step()
print(f"loss {loss.item():.3f}")
