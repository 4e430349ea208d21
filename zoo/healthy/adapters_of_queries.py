"""Most weights are frozen, and the adapters of queries, keys and values begin at zero.

looks like: FadingGradient
"""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, set_seed

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
set_seed(SEED)


class Adapter(nn.Module):
    def __init__(self, inner, rank=4):
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.inner(x) + 2.0 * self.up(self.down(x))


config = BertConfig(
    vocab_size=50,
    hidden_size=WIDTH,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
    num_labels=2,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = BertForSequenceClassification(config)
model.bert.requires_grad_(False)
for block in model.bert.encoder.layer:
    for name in ("query", "key", "value"):
        setattr(block.attention.self, name, Adapter(getattr(block.attention.self, name)))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
for step in range(400):
    ids = torch.randint(1, 50, (24, 12))
    labels = ((ids < 17).sum(1) > 3).long()
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
print(f"RESULT loss {loss.item():.4f}")
