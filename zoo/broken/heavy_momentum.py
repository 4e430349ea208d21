"""SGD with a rate of 0.5 and a momentum of 0.99: the loss swings and swings.

cause: LearningRateTooHigh, OptimizerSettings
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)

wine = load_wine()
x = torch.tensor(StandardScaler().fit_transform(wine.data)).float()
y = torch.tensor(wine.target)
model = nn.Sequential(
    nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
)
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.99)
history = []
for epoch in range(50):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1} mean of the last losses {sum(history[-6:]) / 6:.3f}")
