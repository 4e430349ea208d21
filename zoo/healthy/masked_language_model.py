"""A masked language model: it may see everything, and most targets do not count.

looks like: TargetOrderDiffers, FutureVisible
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
VOCAB, MASK, LENGTH = 20, 20, 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB + 1, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        return self.decoder(self.body(self.tokens(ids) + self.positions.weight))


net = Encoder()
optimizer = torch.optim.AdamW(net.parameters(), lr=LR)
for step in range(300):
    start = torch.randint(0, VOCAB, (32, 1))
    stride = torch.randint(1, 4, (32, 1))
    ids = (start + stride * torch.arange(LENGTH)) % VOCAB
    hidden = torch.rand(ids.shape) < 0.15
    scores = net(ids.masked_fill(hidden, MASK))
    targets = ids.masked_fill(~hidden, -100)
    loss = nn.functional.cross_entropy(scores.transpose(1, 2), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 0:
        print(f"step {step} loss {loss.item():.3f}")
