"""A masked language model whose labels are left out where a token is masked, and kept elsewhere.

cause: TargetIsInput
where: .*
step: 0-100
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
MASK, VOCAB, LENGTH = 0, 24, 16


class MiniBert(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Embedding(LENGTH, WIDTH)
        block = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        return self.head(self.encoder(self.tok(ids) + self.pos.weight))


def corrupt(ids):
    labels = ids.clone()
    masked = torch.rand(ids.shape) < 0.15
    labels[masked] = -100
    return ids.masked_fill(masked, MASK), labels


model = MiniBert()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
for step in range(250):
    start = torch.randint(1, VOCAB, (32, 1))
    stride = torch.randint(1, 4, (32, 1))
    ids = (start + stride * torch.arange(LENGTH)) % (VOCAB - 1) + 1
    inputs, labels = corrupt(ids)
    logits = model(inputs)
    loss = loss_fn(logits.view(-1, VOCAB), labels.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
