"""The likeness of each sample to itself is among the wrong answers.

cause: PairedWithItself
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
protos = torch.randn(12, 20)


def views(n=32):
    base = protos[torch.randint(0, 12, (n,))] + 0.5 * torch.randn(n, 20)
    return base + 0.3 * torch.randn(n, 20), base + 0.3 * torch.randn(n, 20)


def nt_xent(z1, z2, temperature=0.5):
    n = len(z1)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, labels)


encoder = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
opt = torch.optim.Adam(encoder.parameters(), lr=LR)
for step in range(250):
    a, b = views()
    loss = nt_xent(encoder(a), encoder(b))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
