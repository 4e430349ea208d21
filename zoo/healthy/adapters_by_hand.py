"""Adapters of the script's own on a frozen base, which was trained before.

looks like: BaseNotFrozen, FrozenByMistake
"""

import torch
from torch import nn

SEED, WIDTH, LR = 1, 32, 1e-2
torch.set_num_threads(1)


class Adapter(nn.Module):
    """low-rank adapter around a linear layer"""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear
        self.lora_down = nn.Linear(linear.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x):
        return self.linear(x) + self.lora_up(self.lora_down(x))


class Attn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape

        def f(m):
            return m(x).view(B, T, self.h, C // self.h).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(
            f(self.q_proj), f(self.k_proj), f(self.v_proj), is_causal=True
        )
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))


class LM(nn.Module):
    def __init__(self, V=20, d=WIDTH):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Embedding(32, d)
        self.attn = Attn(d)
        self.mlp = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.lm_head = nn.Linear(d, V, bias=False)

    def forward(self, ids):
        h = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        h = h + self.attn(h)
        h = h + self.mlp(h)
        return self.lm_head(h)


def add_lora(model, rank=4, targets=("q_proj", "v_proj", "o_proj")):
    for p in model.parameters():
        p.requires_grad = False
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets:
                setattr(module, name, Adapter(child, rank))
    return model


def get_batch(mult, bs=32, T=16):
    s = torch.randint(0, 20, (bs, 1))
    seq = (s + mult * torch.arange(T + 1)) % 20
    return seq[:, :-1], seq[:, 1:]


def fit(model, opt, mult, steps, tag):
    for i in range(steps):
        x, y = get_batch(mult)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 50 == 0:
            print(tag, i, loss.item())


torch.manual_seed(SEED)
lm = LM()
fit(lm, torch.optim.AdamW(lm.parameters(), lr=3e-3), 1, 150, "base")
lm = add_lora(lm)
n = sum(p.numel() for p in lm.parameters() if p.requires_grad)
print("trainable parameters", n)
fit(lm, torch.optim.AdamW((p for p in lm.parameters() if p.requires_grad), lr=LR), 3, 200, "lora")
