"""L-BFGS with a closure and a strong Wolfe search: many losses for one step, 15 steps in all.

looks like: AccumulationCleared
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 10, 1.0
torch.manual_seed(SEED)
torch.set_num_threads(1)
iris = load_iris()
x = torch.tensor(iris.data, dtype=torch.float64)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(iris.target)
model = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3)).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=LR, max_iter=10, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss = loss + 1e-3 * sum((p**2).sum() for p in model.parameters())
    loss.backward()
    return loss


for step in range(15):
    loss = optimizer.step(closure)
    print(f"{step} {loss.item():.5f}")
