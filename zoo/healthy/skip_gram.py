"""Skip-gram with negative samples: sparse gradients, SparseAdam, most rows never touched."""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)
VOCABULARY, TOPICS = 2000, 20


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
        self.outer = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
        nn.init.uniform_(self.inner.weight, -0.5 / WIDTH, 0.5 / WIDTH)
        nn.init.zeros_(self.outer.weight)

    def forward(self, centre, context, negatives):
        v = self.inner(centre)
        positive = (v * self.outer(context)).sum(-1)
        negative = torch.bmm(self.outer(negatives), v[:, :, None]).squeeze(-1)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(-1)).mean()


model = SkipGram()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=LR)
rank = torch.arange(1, 101, dtype=torch.float32)
for step in range(500):
    topic = torch.randint(TOPICS, (128,))
    words = torch.multinomial(1 / rank, 256, replacement=True).view(2, 128) * TOPICS + topic
    loss = model(words[0], words[1], torch.randint(VOCABULARY, (128, 5)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"{step} {loss.item():.4f}")
