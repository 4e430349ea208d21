"""Negative cosines between two views, of which one is detached: the loss is below zero, and the
first layer of a predictor follows the last one of the encoder without an activation.

looks like: TargetIsOwnOutput, ActivationMissing
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
protos = torch.randn(10, 20)
encoder = nn.Sequential(
    nn.Linear(20, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 32)
)
predictor = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))
opt = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=LR)


def d(p, z):
    return -F.cosine_similarity(p, z.detach(), dim=-1).mean()


for step in range(250):
    base = protos[torch.randint(0, 10, (64,))] + 0.3 * torch.randn(64, 20)
    v1, v2 = base + 0.3 * torch.randn(64, 20), base + 0.3 * torch.randn(64, 20)
    z1, z2 = encoder(v1), encoder(v2)
    loss = (d(predictor(z1), z2) + d(predictor(z2), z1)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), F.normalize(z1, dim=1).std(0).mean().item())
