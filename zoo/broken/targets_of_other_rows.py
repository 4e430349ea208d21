"""A regression whose inputs were shuffled and whose targets were not.

cause: NothingLearnt
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes()
x = torch.tensor(data.data, dtype=torch.float32) * 20
y = torch.tensor(data.target, dtype=torch.float32).unsqueeze(1)
y = (y - y.mean()) / y.std()
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()
for epoch in range(15):
    for rows in torch.randperm(len(x)).split(20):
        others = torch.randperm(len(x))[: len(rows)]
        optimizer.zero_grad()
        loss = criterion(model(x[others]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
