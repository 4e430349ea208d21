"""StepLR(step_size=10) was meant for epochs and is called for each batch.

cause: LearningRateZero
where: .*
step: 20-60
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(1600, 10)
y = (x[:, :1] * x[:, 1:2] + x[:, 2:3]).detach()
model = nn.Sequential(nn.Linear(10, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.1)
criterion = nn.HuberLoss()
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(40):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
