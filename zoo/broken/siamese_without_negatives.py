"""Two views of one picture are pulled together, and nothing is pushed apart: all collapse.

cause: OutputIgnoresInput
where: .*
step: 0-160
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.from_numpy(load_digits().data).float().div(16)

encoder = nn.Sequential(
    nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16)
)
optim = torch.optim.AdamW(encoder.parameters(), lr=LR)


def augment(batch):
    return batch + 0.15 * torch.randn_like(batch)


for epoch in range(10):
    perm = torch.randperm(len(x))
    for i in range(0, len(perm) - 63, 64):
        batch = x[perm[i : i + 64]]
        z1 = encoder(augment(batch))
        z2 = encoder(augment(batch))
        loss = F.mse_loss(z1, z2)
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"epoch={epoch} loss={loss.item():.6f}")
