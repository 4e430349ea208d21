"""Likenesses are multiplied by a temperature of 0.07, not divided.

cause: TemperatureTooHigh
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
mix_a, mix_b = torch.randn(8, 20), torch.randn(8, 14)


def pairs(n=64):
    z = torch.randn(n, 8)
    return z @ mix_a + 0.2 * torch.randn(n, 20), z @ mix_b + 0.2 * torch.randn(n, 14)


image = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
text = nn.Sequential(nn.Linear(14, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
opt = torch.optim.Adam([*image.parameters(), *text.parameters()], lr=LR)
temperature = 0.07
for step in range(250):
    a, b = pairs()
    za, zb = F.normalize(image(a), dim=-1), F.normalize(text(b), dim=-1)
    logits = za @ zb.T * temperature
    labels = torch.arange(len(a))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (logits.argmax(1) == labels).float().mean().item())
