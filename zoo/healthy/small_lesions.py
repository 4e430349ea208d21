"""Segmentation of small bright spots: nearly all is background, and the spots are found.

looks like: OneClassPredicted
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Down(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Down(1, WIDTH), Down(WIDTH, 2 * WIDTH)
        self.c = Down(3 * WIDTH, WIDTH)
        self.last = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        high = self.a(x)
        low = self.b(nn.functional.max_pool2d(high, 2))
        low = nn.functional.interpolate(low, scale_factor=2, mode="nearest")
        return self.last(self.c(torch.cat([high, low], 1)))


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


net = TinyUNet()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
for step in range(200):
    mask = torch.zeros(8, 1, 24, 24)
    for k in range(8):
        r, c = torch.randint(0, 21, (2,)).tolist()
        mask[k, 0, r : r + 3, c : c + 3] = 1
    image = 0.3 * torch.randn(8, 1, 24, 24) + 1.5 * mask
    logits = net(image)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, mask) + dice(logits, mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step} loss {loss.item():.4f}")
