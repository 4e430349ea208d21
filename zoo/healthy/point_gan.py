"""A generator and a discriminator on points of the plane.

looks like: ConstantLabels, GeneratorLabelsSwapped
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
G = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
D = nn.Sequential(nn.Linear(2, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, 1))
bce = nn.BCEWithLogitsLoss()
g_opt = torch.optim.Adam(G.parameters(), lr=LR, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), lr=LR, betas=(0.5, 0.999))
real_label, fake_label = torch.ones(64, 1), torch.zeros(64, 1)
for step in range(300):
    real = torch.randn(64, 2) * 0.3 + torch.tensor([2.0, -1.0])
    fake = G(torch.randn(64, 8))
    d_loss = bce(D(real), real_label) + bce(D(fake.detach()), fake_label)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = bce(D(fake), real_label)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if step % 50 == 0:
        print(step, d_loss.item(), g_loss.item(), fake.mean(0).tolist())
