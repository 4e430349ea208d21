"""After five epochs the model gets another head and an optimizer for it.

looks like: ParametersNotOptimized
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.head(self.body(x))


x = torch.randn(640, 10)
coarse = (x[:, 0] > 0).long()
fine = coarse * 2 + (x[:, 1] * x[:, 2] > 0).long()
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(16):
    if epoch == 5:
        model.head = nn.Linear(WIDTH, 4)
        opt = torch.optim.Adam(model.parameters(), lr=LR)
    y = coarse if epoch < 5 else fine
    for i in torch.randperm(640).split(32):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
