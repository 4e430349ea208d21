"""log_softmax over the batch (dim=0) instead of the classes, then NLLLoss.

cause: LossInputNotLogProbabilities
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.nn import functional

SEED, WIDTH, LR = 0, 16, 2e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

iris = load_iris()
x = torch.tensor(iris.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(iris.target)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        return functional.log_softmax(self.two(torch.tanh(self.one(x))), dim=0)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for _ in range(40):
    for rows in torch.randperm(len(x)).split(25):
        loss = functional.nll_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
