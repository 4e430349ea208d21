"""The loss is scaled, but the optimizer steps by itself: gradients 1024 times too large.

cause: ScaleNotRemoved
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(640, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
opt = torch.optim.SGD(model.parameters(), lr=LR)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for epoch in range(15):
    for i in torch.randperm(640).split(32):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x[i]), y[i])
        scaler.scale(loss).backward()
        opt.step()
    print(epoch, loss.item())
