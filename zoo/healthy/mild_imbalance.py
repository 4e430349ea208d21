"""Four in five samples are of one class; the loss is weighted for it."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(3000, 20)
score = x[:, :4].sum(1) + 0.5 * torch.randn(3000)
y = (score > score.quantile(0.8)).long()
model = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 4.0]))

for epoch in range(4):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
