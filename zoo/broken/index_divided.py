"""A data set whose index is divided: 1024 items, 8 distinct ones.

cause: FewDistinctSamples
where: .*
step: 0
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 32, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Shots(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 20, generator=g)
        w = torch.randn(20, 4, generator=torch.Generator().manual_seed(9))
        self.y = (self.x @ w + 0.3 * torch.randn(n, 4, generator=g)).argmax(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        i = i // 128
        return (self.x[i], self.y[i])


train, val = (Shots(1024, 1), Shots(256, 2))
model = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(12):
    model.train()
    for x, y in DataLoader(train, 32, shuffle=True):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
print(
    "acc",
    (model(torch.stack([val.x[i] for i in range(256)])).argmax(1) == val.y).float().mean().item(),
)
