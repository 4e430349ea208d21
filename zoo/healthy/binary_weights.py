"""Binary weights and quantised activations by straight-through estimators."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 96, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, Sign.apply(self.weight), self.bias) / self.in_features**0.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = BinaryLinear(64, WIDTH), BinaryLinear(WIDTH, 10)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        h = self.norm(self.one(x)).clamp(-1, 1)
        h = h + ((h * 7).round() / 7 - h).detach()
        return self.two(h)


digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 8 - 1
y = torch.tensor(digits.target)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
for epoch in range(10):
    for rows in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            net.one.weight.clamp_(-1, 1)
            net.two.weight.clamp_(-1, 1)
    print(f"epoch {epoch} {loss.item():.3f}")
