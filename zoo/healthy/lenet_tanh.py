"""An old-fashioned convolutional net: tanh, average pooling, plain SGD with momentum.

looks like: SaturatedLayer, FadingGradient
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 84, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 3, padding=1)
        self.c2 = nn.Conv2d(6, 16, 3)
        self.pool = nn.AvgPool2d(2)
        self.f1 = nn.Linear(16, WIDTH)
        self.f2 = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.pool(torch.tanh(self.c1(x)))
        x = self.pool(torch.tanh(self.c2(x)))
        x = torch.tanh(self.f1(x.view(x.size(0), -1)))
        return self.f2(x)


digits = load_digits()
x = torch.tensor(digits.images / 8 - 1).float()[:, None]
y = torch.tensor(digits.target)
net = LeNet()
sgd = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(32):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        sgd.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
