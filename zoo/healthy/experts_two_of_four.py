"""Two of four experts for each sample, weighted by their gates, and a term that shares the load."""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SparseExperts(nn.Module):
    def __init__(self, dim, count=4, top=2):
        super().__init__()
        self.gate, self.top = nn.Linear(dim, count, bias=False), top
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, WIDTH), nn.SiLU(), nn.Linear(WIDTH, dim))
            for _ in range(count)
        )
        self.balance = torch.zeros(())

    def forward(self, x):
        probabilities = self.gate(x).softmax(-1)
        weights, chosen = probabilities.topk(self.top, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, rows, weights[rows, place, None] * expert(x[rows]))
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        self.balance = len(self.experts) * (load * probabilities.mean(0)).sum()
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.moe, self.head = nn.Linear(10, 16), SparseExperts(16), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.head(h + self.moe(h))


model = Net()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
centres = torch.randn(12, 10) * 1.5
for i in range(400):
    kind = torch.randint(0, 12, (64,))
    x = centres[kind] + torch.randn(64, 10)
    task = F.cross_entropy(model(x), kind % 3)
    loss = task + 0.01 * model.moe.balance
    opt.zero_grad()
    loss.backward()
    opt.step()
    if not i % 80:
        print(i, task.item(), model.moe.balance.item())
