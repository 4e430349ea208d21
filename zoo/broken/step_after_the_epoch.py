"""optimizer.step() is indented one level too little: one update for each epoch, by its last batch.

cause: OptimizerNotStepping
where: .*
step: 0-30
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 10, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

iris = load_iris()
x = torch.Tensor((iris.data - iris.data.mean(0)) / iris.data.std(0))
y = torch.LongTensor(iris.target)
model = nn.Sequential(
    nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(40):
    epoch_loss = 0
    for rows in torch.randperm(150).split(10):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        epoch_loss += loss.item()
    optimizer.step()
    print(f"epoch {epoch} loss {epoch_loss / 15:.4f}")
