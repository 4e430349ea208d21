"""A warm-up over ten thousand steps in a training of three hundred.

cause: WarmUpNeverEnds
where: .*
step: 0-40
"""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

SEED, WIDTH, LR = 0, 48, 5e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)
WARMUP = 10_000


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, WIDTH)
        self.pos = nn.Parameter(torch.randn(12, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.embed(x) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean(1))


w = torch.randn(6, 4)
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=LR)
sched = LambdaLR(opt, lambda s: min(1.0, (s + 1) / WARMUP))
for step in range(300):
    x = torch.randn(32, 12, 6)
    y = (x[:, 3] @ w).argmax(-1)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 60 == 0:
        print(f"step {step} lr {sched.get_last_lr()[0]:.2e} loss {loss.item():.4f}")
