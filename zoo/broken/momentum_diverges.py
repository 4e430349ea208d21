"""A CNN by SGD with a learning rate of 2 and a momentum of 0.95.

cause: LearningRateTooHigh, OptimizerSettings
where: .*
step: 0-30
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

SEED, WIDTH, LR = 0, 12, 2.0
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16 - 0.3, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.two = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.out = nn.Linear(WIDTH * 16, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.leaky_relu(self.one(x)), 2)
        return self.out(functional.leaky_relu(self.two(x)).flatten(1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.95)
for epoch in range(5):
    for rows in torch.randperm(len(x)).split(36):
        loss = functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
