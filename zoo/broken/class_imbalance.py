"""97 of 100 samples are of one class, and the model only ever says that one.

cause: OneClassPredicted
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(3000, 20)
score = x[:, :4].sum(1) + torch.randn(3000)
y = (score > score.quantile(0.97)).long()
model = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
