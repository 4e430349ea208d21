"""tie_weights copies the embedding into the head, so that the two drift apart.

cause: WeightsUntied
where: head
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
text = torch.randint(0, 6, (4000,))
text = (text.cumsum(0) // 3) % 29


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(29, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 29, bias=False)
        self.tie_weights()

    def tie_weights(self):
        self.head.weight.data = self.emb.weight.data.clone()

    def forward(self, t):
        return self.head(self.rnn(self.emb(t))[0])


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(250):
    at = torch.randint(0, 3960, (16,))
    rows = torch.stack([text[i : i + 33] for i in at])
    loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
