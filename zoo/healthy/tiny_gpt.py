"""A small GPT of own blocks: causal, tied head, decay for matrices only, warm-up and cosine.

looks like: ViewForTranspose
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
text = "she sells sea shells on the sea shore; the shells she sells are sea shells for sure. " * 30
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
BLOCK, STEPS = 24, 300


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("bias", torch.tril(torch.ones(BLOCK, BLOCK)).view(1, 1, BLOCK, BLOCK))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, 4, c // 4).transpose(1, 2) for p in self.c_attn(x).split(c, dim=2))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(c // 4)
        att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = F.dropout(F.softmax(att, dim=-1), 0.1, self.training) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = (
            nn.LayerNorm(WIDTH),
            CausalSelfAttention(),
            nn.LayerNorm(WIDTH),
        )
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(chars), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(3)])
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, len(chars), bias=False)
        self.lm_head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(
                    p, 0.0, 0.02 / (math.sqrt(6) if name.endswith("c_proj.weight") else 1)
                )

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


model = GPT()
matrices = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
    lr=LR,
    betas=(0.9, 0.95),
)
for step in range(STEPS):
    rate = LR * min((step + 1) / 30, 0.5 * (1 + math.cos(math.pi * step / STEPS)))
    for group in optimizer.param_groups:
        group["lr"] = rate
    ix = torch.randint(len(data) - BLOCK - 1, (12,))
    x, y = (torch.stack([data[i + s : i + s + BLOCK] for i in ix]) for s in (0, 1))
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
