"""The embedding and the recurrent layer run under no_grad, though they are to be trained.

cause: GradientMissing
where: embed|rnn
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        with torch.no_grad():
            states, _ = self.rnn(self.embed(tokens))
        return self.out(states[:, -1])


tokens = torch.randint(0, 50, (1000, 12))
labels = (tokens[:, -4:] < 10).any(1).long()
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for epoch in range(8):
    for rows in torch.randperm(1000).split(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
