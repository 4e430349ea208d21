"""A language model whose output layer is its embedding.

looks like: WeightsUntied
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 40)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


tokens = torch.arange(2000).cumsum(0) % 37 + torch.randint(0, 3, (2000,))
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _ in range(250):
    starts = torch.randint(0, 1950, (16,))
    batch = torch.stack([tokens[s : s + 21] for s in starts])
    scores = model(batch[:, :-1])
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
