"""A small GPT-like model whose weights start at a deviation of 0.02, as is usual for large ones.

looks like: WeightsTooSmall
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

text = "to be or not to be that is the question whether it is nobler in the mind to suffer. " * 40
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        y = self.norm(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.other(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(len(letters), WIDTH), nn.Embedding(20, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters), bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(20)
        x = self.token(tokens) + self.place(torch.arange(20))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95))
for _ in range(250):
    starts = torch.randint(0, len(data) - 21, (16,))
    batch = torch.stack([data[s : s + 21] for s in starts])
    loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
