"""Tags are padded with 0 and 0 is ignored, but 0 is also a tag.

cause: RealClassIgnored
where: .*
step: 0-400
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)

VOCAB, TAGS, LEN = 40, 4, 12


def batch(n=32):
    tokens = torch.randint(1, VOCAB, (n, LEN))
    tags = tokens % TAGS
    lengths = torch.randint(6, LEN + 1, (n,))
    pad = torch.arange(LEN)[None] >= lengths[:, None]
    tokens = tokens.masked_fill(pad, 0)
    tags = tags.masked_fill(pad, 0)
    return tokens, tags


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, TAGS)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


model = Tagger()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(200):
    tokens, tags = batch()
    logits = model(tokens)
    loss = criterion(logits.reshape(-1, TAGS), tags.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
