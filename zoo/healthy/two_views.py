"""Each sample is augmented twice.

looks like: PairedWithItself
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)


def augment(x):
    return x * (torch.rand_like(x) > 0.2) + 0.2 * torch.randn_like(x)


class Pairs(Dataset):
    def __init__(self):
        protos = torch.randn(10, 24)
        self.x = protos[torch.randint(0, 10, (960,))] + 0.5 * torch.randn(960, 24)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return augment(self.x[i]), augment(self.x[i])


loader = DataLoader(Pairs(), batch_size=32, shuffle=True)
encoder = nn.Sequential(nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
opt = torch.optim.Adam(encoder.parameters(), lr=LR)
for epoch in range(8):
    for v1, v2 in loader:
        z1, z2 = F.normalize(encoder(v1), dim=1), F.normalize(encoder(v2), dim=1)
        logits = z1 @ z2.t() / 0.2
        loss = F.cross_entropy(logits, torch.arange(len(v1)))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
