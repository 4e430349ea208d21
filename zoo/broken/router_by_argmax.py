"""A mixture of experts whose router only picks by argmax: it never gets a gradient.

cause: GradientMissing
where: (gate|router)
step: 0-20
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, WIDTH), nn.Linear(WIDTH, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self, dim, count):
        super().__init__()
        self.gate = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleDict({f"e{i}": Expert(dim) for i in range(count)})

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts.values()):
            picked = chosen == i
            if picked.any():
                out[picked] = expert(x[picked])
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(10, 16)
        self.moe = MoE(16, 4)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.head(h + self.moe(h))


model = Net()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
centres = torch.randn(12, 10) * 1.5
for i in range(400):
    kind = torch.randint(0, 12, (64,))
    x = centres[kind] + torch.randn(64, 10)
    loss = F.cross_entropy(model(x), kind % 3)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if not i % 80:
        print(i, loss.item())
