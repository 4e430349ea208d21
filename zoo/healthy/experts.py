"""A mixture of experts behind sigmoid and softmax gates: some experts hardly ever used.

looks like: GradientMissing, LossInputAlreadySoftmax
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.gate = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH)

    def forward(self, x):
        return self.value(x) * torch.sigmoid(self.gate(x))


class Experts(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.router = nn.Linear(8, count)
        self.experts = nn.ModuleList(
            nn.Sequential(Gated(), nn.Linear(WIDTH, 1)) for _ in range(count)
        )

    def forward(self, x):
        weight, chosen = self.router(x).softmax(1).topk(2, dim=1)
        out = torch.zeros(len(x), 1)
        for number, expert in enumerate(self.experts):
            for slot in range(2):
                rows = (chosen[:, slot] == number).nonzero().squeeze(1)
                if len(rows):
                    out = out.index_add(0, rows, weight[rows, slot, None] * expert(x[rows]))
        return out


model = Experts()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(300):
    x = torch.randn(128, 8)
    y = torch.where(x[:, :1] > 0, x[:, 1:2] * 2, x[:, 2:3].abs())
    loss = nn.functional.huber_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 0:
        print(f"{step} {loss.item():.4f}")
