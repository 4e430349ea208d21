"""Three linear layers and no activation anywhere: the model is a linear one.

cause: ActivationMissing
where: .*
step: 0-10
"""

import torch
from sklearn.datasets import make_moons
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

points, labels = make_moons(1000, noise=0.1, random_state=SEED)
x, y = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
model = nn.Sequential(
    nn.Linear(2, WIDTH), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(10):
    for rows in torch.randperm(len(x)).split(40):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
