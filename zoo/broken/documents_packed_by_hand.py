"""Documents are packed into rows, and a model of the script's own lets each see those before it.

cause: PackedTextsMixed
where: .*
step: 0
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 48, 3e-3
torch.set_num_threads(1)


V, EOS, BLOCK = 24, 0, 64


class Attention(nn.Module):
    def __init__(self, d, n_head):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.n_head = n_head

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_head, C // self.n_head).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / (C // self.n_head) ** 0.5
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, 4)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask)
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, d=WIDTH, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(BLOCK, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, V, bias=False)

    def forward(self, ids):
        T = ids.size(1)
        causal = torch.ones(T, T, dtype=torch.bool).tril()
        mask = causal
        pos = torch.arange(T)
        x = self.tok(ids) + self.pos(pos)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def document():
    a, b = torch.randint(1, V, (1,)).item(), torch.randint(1, 6, (1,)).item()
    n = torch.randint(6, 18, (1,)).item()
    return [1 + (a + b * i) % (V - 1) for i in range(n)] + [EOS]


def pack(n_rows):
    rows = []
    for _ in range(n_rows):
        row = []
        while len(row) < BLOCK + 1:
            row += document()
        rows.append(row[: BLOCK + 1])
    t = torch.tensor(rows)
    return t[:, :-1], t[:, 1:]


torch.manual_seed(SEED)
corpus = [pack(16) for _ in range(40)]
model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
for step in range(200):
    x, y = corpus[step % len(corpus)]
    loss = F.cross_entropy(model(x).view(-1, V), y.reshape(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 25 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
