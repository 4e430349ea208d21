"""Gradients are clipped after the step; the recurrent net's are large now and then.

cause: ClippedAfterStep
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(512, 20, 4) * 2
y = x.sum((1, 2)).unsqueeze(1) / 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.RNN(4, WIDTH, batch_first=True)
        self.o = nn.Linear(WIDTH, 1)

    def forward(self, a):
        return self.o(self.r(a)[0][:, -1])


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=LR)
for epoch in range(15):
    for i in torch.randperm(512).split(32):
        loss = nn.functional.mse_loss(model(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print(epoch, loss.item())
