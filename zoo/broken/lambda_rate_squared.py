"""LambdaLR's function returns the rate itself; it is multiplied by the rate once more.

cause: LearningRateTooLow
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

SEED, WIDTH, LR = 0, 40, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0)).float()
y = torch.tensor(data.target)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Dropout(0.1), nn.Linear(WIDTH, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = LambdaLR(optimizer, lambda epoch: LR * 0.95**epoch)
for epoch in range(20):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(f"epoch {epoch} lr {scheduler.get_last_lr()[0]:.2e} loss {loss.item():.3f}")
