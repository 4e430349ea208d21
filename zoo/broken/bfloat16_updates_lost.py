"""Weights in bfloat16 and small updates: most of them are rounded away.

cause: LowPrecisionWeights
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 5e-05
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(640, 16)
y = (x @ torch.randn(16, 3)).argmax(1)
model = nn.Sequential(nn.Linear(16, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
model, x = (model.bfloat16(), x.bfloat16())
opt = torch.optim.AdamW(model.parameters(), lr=LR)
for epoch in range(25):
    for i in torch.randperm(640).split(32):
        loss = nn.functional.cross_entropy(model(x[i]).float(), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
