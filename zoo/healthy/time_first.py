"""A transformer and an LSTM that want time first and get it; sets need no positions.

looks like: BatchTakenForTime
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Counter(nn.Module):
    """How many of the set's members are positive?"""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(1, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0)
        self.mix = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.rnn = nn.LSTM(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 9)

    def forward(self, members):
        hidden = self.mix(self.lift(members.transpose(0, 1)))
        states, _ = self.rnn(hidden)
        return self.out(states[-1])


net = Counter()
optimizer = torch.optim.RAdam(net.parameters(), lr=LR)
for step in range(250):
    members = torch.randn(40, 8, 1)
    count = (members > 0).sum((1, 2))
    loss = nn.CrossEntropyLoss()(net(members), count)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
