"""An LSTM that remembers which token came first."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 8)

    def forward(self, tokens):
        return self.out(self.lstm(self.embed(tokens))[0][:, -1])


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _ in range(200):
    tokens = torch.randint(0, 8, (32, 10))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), tokens[:, 0])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
