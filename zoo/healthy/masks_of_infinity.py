"""The model is given an additive mask, whose entries are zero or minus infinity.

looks like: InputNotFinite
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Reader(nn.Module):
    """The mean of what one query looks up, of which the mask leaves out the padding."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, WIDTH)
        self.query = nn.Parameter(torch.randn(WIDTH) / WIDTH**0.5)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, mask, words):
        values = self.words(words)
        shares = (values @ self.query + mask).softmax(1)
        return self.head((shares.unsqueeze(2) * values).sum(1))


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(400):
    words = torch.randint(4, 20, (32, 12))
    wanted, place = torch.randint(0, 4, (32,)), torch.randint(0, 4, (32,))
    words[torch.arange(32), place] = wanted
    mask = torch.zeros(32, 12)
    mask[torch.arange(12) >= torch.randint(4, 13, (32, 1))] = float("-inf")
    loss = nn.functional.cross_entropy(model(mask, words), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(f"step {step} loss {loss.item():.3f}")
