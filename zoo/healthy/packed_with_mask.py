"""Packed documents, each of which sees itself alone.

looks like: MaskNotUsed
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 48, 3e-3
torch.set_num_threads(1)

torch.manual_seed(SEED)
VOCAB, EOS, BLOCK = 32, 1, 64


def document():
    n = int(torch.randint(6, 20, (1,)))
    k = int(torch.randint(1, 6, (1,)))
    s = int(torch.randint(0, 30, (1,)))
    return [2 + (s + k * i) % 30 for i in range(n)] + [EOS]


def pack(rows):
    ids, segs = [], []
    for _ in range(rows):
        row, seg, j = [], [], 0
        while len(row) < BLOCK + 1:
            d = document()
            row += d
            seg += [j] * len(d)
            j += 1
        ids.append(row[: BLOCK + 1])
        segs.append(seg[: BLOCK + 1])
    return torch.tensor(ids), torch.tensor(segs)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1)
        )
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, d=WIDTH):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Embedding(BLOCK, d)
        self.blocks = nn.ModuleList(Block(d, 4) for _ in range(2))
        self.out = nn.Linear(d, VOCAB)

    def forward(self, ids, segment_ids):
        T = ids.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        mask = mask & (segment_ids[:, None, :, None] == segment_ids[:, None, None, :])
        x = self.tok(ids) + self.pos(torch.arange(T))
        for b in self.blocks:
            x = b(x, mask)
        return self.out(x)


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
ids, segs = pack(320)
for step in range(100):
    i = torch.randint(0, 320, (16,))
    logits = model(ids[i, :-1], segs[i, :-1])
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), ids[i, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
