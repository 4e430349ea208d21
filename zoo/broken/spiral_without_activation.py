"""Four linear layers, and nobody calls an activation in forward.

cause: ActivationMissing
where: .*
step: 0
"""

import math

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SpiralNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, 2)

    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(x)
        x = self.fc3(x)
        x = self.fc4(x)
        return x


arm = torch.rand(600) * 3 * math.pi
turn = torch.randint(0, 2, (600,))
x = (
    torch.stack([arm * torch.cos(arm + turn * math.pi), arm * torch.sin(arm + turn * math.pi)], 1)
    / 5
)
model = SpiralNet()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(30):
    permutation = torch.randperm(600)
    for i in range(0, 600, 50):
        batch = permutation[i : i + 50]
        loss = loss_fn(model(x[batch]), turn[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if not epoch % 5:
        print(epoch, loss.item())
