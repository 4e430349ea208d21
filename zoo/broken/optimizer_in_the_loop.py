"""SGD with momentum is made for each batch, so that there is never any momentum.

cause: OptimizerRecreated
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 50, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16).float(), torch.tensor(y)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def train_one_batch(data, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    return loss.item()


for epoch in range(4):
    for rows in torch.randperm(len(X)).split(32):
        last = train_one_batch(X[rows], y[rows])
    print(f"epoch {epoch} loss {last:.3f}")
