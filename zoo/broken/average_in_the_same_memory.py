"""The table of averages holds the weights themselves, which each update shrinks.

cause: CopyNotMade
where: .*
step: 0
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 64, 1e-2
torch.set_num_threads(1)


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.data for k, v in model.named_parameters()}

    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(v.data, alpha=1 - self.decay)

    def apply(self, model):
        self.backup = {k: v.data.clone() for k, v in model.named_parameters()}
        for k, v in model.named_parameters():
            v.data.copy_(self.shadow[k])

    def restore(self, model):
        for k, v in model.named_parameters():
            v.data.copy_(self.backup[k])


torch.manual_seed(SEED)
net = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
ema = EMA(net)
opt = torch.optim.Adam(net.parameters(), lr=LR)
xv = torch.randn(500, 8)
yv = xv.pow(2).sum(1, keepdim=True)
for step in range(600):
    x = torch.randn(16, 8)
    y = x.pow(2).sum(1, keepdim=True) + torch.randn(16, 1)
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(net)
    if step % 100 == 99:
        with torch.no_grad():
            live = nn.functional.mse_loss(net(xv), yv).item()
            ema.apply(net)
            avg = nn.functional.mse_loss(net(xv), yv).item()
            ema.restore(net)
        print(f"step {step} loss {loss.item():.4f} live {live:.4f} ema {avg:.4f}")
