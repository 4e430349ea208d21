"""The squared errors of a batch are summed, the rate is one for a mean: nan after a few steps.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes()
x = torch.tensor(data.data / data.data.std(0)).float()
y = torch.tensor((data.target - data.target.mean()) / data.target.std()).float().unsqueeze(1)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(10, WIDTH)
        self.linear2 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.linear2(self.linear1(x).clamp(min=0))


model = MLP()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for epoch in range(30):
    for rows in torch.randperm(len(x)).split(128):
        y_pred = model(x[rows])
        loss = (y_pred - y[rows]).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
