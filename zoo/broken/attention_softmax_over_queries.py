"""Own attention whose weights sum to 1 over the queries, not over the keys.

cause: AttentionAxisWrong
where: .*
step: 0-50
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            layer(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        weights = F.softmax(scores, dim=2)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention = SelfAttention(dim, 4)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, WIDTH)
        self.positions = nn.Embedding(16, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 20)

    def forward(self, x):
        h = self.tokens(x) + self.positions(torch.arange(x.size(1)))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
step = 0
while step < 300:
    x = torch.randint(0, 20, (32, 16))
    y = x.gather(1, x % 16)  # each token points at another one
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print(step, loss.item())
