"""A `break` of a debugging session left in the loop: of 40 batches each epoch sees two.

cause: EpochCutShort
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Spirals(Dataset):
    def __init__(self):
        t = torch.rand(2000) * 6
        self.y = torch.randint(3, (2000,))
        angle = t + 2.1 * self.y
        self.x = torch.stack([angle.cos(), angle.sin()], 1) * t[:, None] / 3

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=LR)
loader = DataLoader(Spirals(), batch_size=50, shuffle=True)
for epoch in range(15):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 100 == 1:
            print(epoch, i, loss.item())
            break
