"""Five models of an ensemble, of which one starts with biases that keep its ReLUs shut.

cause: DeadLayer
"""

import torch
from sklearn.datasets import load_iris
from torch import nn

SEED, WIDTH, LR = 0, 16, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
iris = load_iris()
x = torch.tensor(iris.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(iris.target)


class Member(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
        nn.init.constant_(self.fc1.bias, bias)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


members = nn.ModuleList(Member(bias) for bias in (0.0, 0.0, 0.0, -20.0, 0.0))
optimizer = torch.optim.Adam(members.parameters(), lr=LR)
for _epoch in range(30):
    for rows in torch.randperm(len(x)).split(25):
        optimizer.zero_grad()
        loss = sum(nn.functional.cross_entropy(member(x[rows]), y[rows]) for member in members)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item() / 5:.3f}")
