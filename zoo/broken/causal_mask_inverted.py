"""A language model's own attention masks with tril where it should keep: it sees the future only.

cause: FutureVisible
where: .*
step: 0-200
"""

import torch
import torch.nn as nn
from torch.nn import functional as F

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
text = "the quick brown fox jumps over the lazy dog while five boxing wizards jump quickly. " * 40
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
block_size, batch_size = 24, 16


def get_batch():
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + block_size + 1] for i in ix])
    return x, y


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril == 1, -1e9)
        return F.softmax(wei, dim=-1) @ self.value(x)


class BigramLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding_table = nn.Embedding(len(chars), WIDTH)
        self.position_embedding_table = nn.Embedding(block_size, WIDTH)
        self.sa_heads = nn.ModuleList([Head(WIDTH, WIDTH // 4) for _ in range(4)])
        self.ffwd = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.lm_head = nn.Linear(WIDTH, len(chars))

    def forward(self, idx, targets):
        x = self.token_embedding_table(idx) + self.position_embedding_table(
            torch.arange(idx.size(1))
        )
        x = x + torch.cat([h(x) for h in self.sa_heads], dim=-1)
        x = x + self.ffwd(x)
        logits = self.lm_head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


m = BigramLanguageModel()
optimizer = torch.optim.AdamW(m.parameters(), lr=LR)
for _ in range(700):
    xb, yb = get_batch()
    logits, loss = m(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(loss.item())
