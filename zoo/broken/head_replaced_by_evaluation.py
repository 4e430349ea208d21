"""The first evaluation replaces the weight of the head, which is then in no optimizer.

cause: ParametersNotOptimized
where: head
step: 0-60
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 48, 1e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)


class NormHead(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width) / 8)
        self.first = True

    def forward(self, h):
        if self.training:
            return 8 * h @ nn.functional.normalize(self.weight).t()
        if self.first:
            self.first = False
            self.weight = nn.Parameter(nn.functional.normalize(self.weight))
        return 8 * h @ self.weight.t()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh())
        self.head = NormHead(WIDTH, 10)

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x[:1400], y[:1400]), 32, shuffle=True
)
test = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[1400:], y[1400:]), 64)
for epoch in range(5):
    model.train()
    for bx, by in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(bx).argmax(1) == by).sum().item() for bx, by in test)
    print(epoch, loss.item(), right / len(y[1400:]))
