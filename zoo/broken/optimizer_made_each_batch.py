"""The optimizer is made in the loop, with its momentum of nothing, for each batch.

cause: OptimizerRecreated
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
iris = load_iris()
x = torch.tensor(iris.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(iris.target)


def train_batch(model, rows):
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    return loss.item()


model = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
for epoch in range(30):
    losses = [train_batch(model, rows) for rows in torch.randperm(150).split(15)]
    print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}")
