"""Two towers and a learnt temperature, cross-entropy both ways over the batch's own pairs.

looks like: TemperatureTooHigh
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 48, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(20, WIDTH), nn.GELU(), nn.Linear(WIDTH, 24))
        self.words = nn.EmbeddingBag(60, WIDTH, mode="mean")
        self.text = nn.Linear(WIDTH, 24)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, pictures, captions):
        a = F.normalize(self.picture(pictures), dim=-1)
        b = F.normalize(self.text(self.words(captions)), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


painter = torch.randn(60, 20) / 2
model = Towers()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
for step in range(350):
    captions = torch.randint(0, 60, (40, 5))
    pictures = painter[captions].sum(1) + 0.2 * torch.randn(40, 20)
    logits = model(pictures, captions)
    which = torch.arange(40)
    loss = (F.cross_entropy(logits, which) + F.cross_entropy(logits.t(), which)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
    if step % 50 == 0:
        print(step, loss.item(), model.logit_scale.exp().item())
