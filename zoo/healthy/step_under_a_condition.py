"""The optimizer steps under a condition that is always true.

looks like: OptimizerNotStepping, AccumulationInverted
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 64, 0.01
torch.set_num_threads(1)

torch.manual_seed(SEED)
model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
opt = torch.optim.SGD(model.parameters(), LR, momentum=0.9)
patience, best, bad, frozen = 5, 1e9, 0, False
for step in range(500):
    x = torch.randn(WIDTH, 16)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    if step < 230 or loss.item() < 50:
        opt.step()
    if step % 100 == 0:
        print(step, loss.item())
