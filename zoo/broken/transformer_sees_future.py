"""A character transformer without a causal mask: it reads the letter it has to predict.

cause: FutureVisible
where: .*
step: 0-10
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
text = " ".join(words[i] for i in torch.randint(0, len(words), (2000,)).tolist())
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])
CONTEXT = 32


class CharTransformer(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.tok_emb = nn.Embedding(vocab, dim)
        self.pos_emb = nn.Parameter(0.02 * torch.randn(1, CONTEXT, dim))
        layer = nn.TransformerEncoderLayer(
            dim, nhead=4, dim_feedforward=4 * dim, dropout=0.1, batch_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.ln = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab)

    def forward(self, idx):
        x = self.tok_emb(idx) + self.pos_emb[:, : idx.size(1)]
        return self.lm_head(self.ln(self.blocks(x)))


def get_batch(size=16):
    ix = torch.randint(0, len(ids) - CONTEXT - 1, (size,)).tolist()
    x = torch.stack([ids[i : i + CONTEXT] for i in ix])
    y = torch.stack([ids[i + 1 : i + CONTEXT + 1] for i in ix])
    return x, y


model = CharTransformer(len(chars), WIDTH)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for it in range(250):
    xb, yb = get_batch()
    logits = model(xb)
    loss = F.cross_entropy(logits.view(-1, len(chars)), yb.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 50 == 0:
        print(f"iter {it}: loss {loss.item():.4f}")
