"""Both factors of adapters, which are added after a pretraining, begin at zero.

cause: SymmetricWeights
where: .*
step: 0-1000
"""

import argparse

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 0.002
torch.set_num_threads(1)

V, D, L = 32, WIDTH, 24


class Adapter(nn.Module):
    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + 2.0 * self.up(self.down(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        h = self.n1(x)
        a = nn.functional.scaled_dot_product_attention(
            self.q(h), self.k(h), self.v(h), is_causal=True
        )
        x = x + self.o(a)
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(L, D)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.lm_head = nn.LayerNorm(D), nn.Linear(D, V)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for b in self.blocks:
            x = b(x)
        return self.lm_head(self.norm(x))


def text(step, seed, bs=16):
    g = torch.Generator().manual_seed(seed * 100003 + step)
    start = torch.randint(0, V, (bs, 1), generator=g)
    inc = torch.randint(1, 4, (bs, 1), generator=g) + seed
    ids = (start + inc * torch.arange(L + 1)) % V
    noise = torch.rand(ids.shape, generator=g) < 0.05
    return torch.where(noise, torch.randint(0, V, ids.shape, generator=g), ids)


def fit(model, params, steps, seed, lr, tag):
    opt = torch.optim.AdamW(params, lr=lr)
    for step in range(steps):
        ids = text(step, seed)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"{tag} {step} {loss.item():.4f}")


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--rank", type=int, default=8)
    cli.add_argument("--steps", type=int, default=400)
    opts = cli.parse_args()
    torch.manual_seed(SEED)
    lm = LM()
    fit(lm, lm.parameters(), 300, 0, LR, "base")
    lm.requires_grad_(False)
    for block in lm.blocks:
        block.q = Adapter(block.q, opts.rank)
        block.v = Adapter(block.v, opts.rank)
        block.o = Adapter(block.o, opts.rank)
    trainable = [p for p in lm.parameters() if p.requires_grad]
    print("trainable", sum(p.numel() for p in trainable))
    fit(lm, trainable, opts.steps, 5, 1e-3, "adapt")
