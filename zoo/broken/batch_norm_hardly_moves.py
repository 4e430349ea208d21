"""Batch norm with Keras' momentum of 0.99 turned the wrong way round: statistics hardly move.

cause: BatchNormStatistics
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.001
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = 3 + 2 * torch.randn(800, 10)
y = (x @ torch.randn(10, 3)).argmax(1)
M = 0.001
model = nn.Sequential(
    nn.Linear(10, WIDTH),
    nn.BatchNorm1d(WIDTH, momentum=M),
    nn.ReLU(),
    nn.Linear(WIDTH, WIDTH),
    nn.BatchNorm1d(WIDTH, momentum=M),
    nn.ReLU(),
    nn.Linear(WIDTH, 3),
)
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    model.train()
    for i in torch.randperm(600).split(32):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(x[600:])
        print(epoch, loss.item(), nn.functional.cross_entropy(out, y[600:]).item())
