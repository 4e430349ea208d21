"""A recurrence with large weights over 60 steps: gradients explode on their way back.

cause: ExplodingGradient
where: cell|rnn|weight
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, WIDTH)
        self.again = nn.Linear(WIDTH, WIDTH)
        nn.init.orthogonal_(self.again.weight, gain=1.5)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, sequence):
        state = torch.zeros(len(sequence), WIDTH)
        for moment in sequence.unbind(1):
            state = torch.relu(self.enter(moment) + self.again(state))
        return self.head(state).squeeze(1)


model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)

for _ in range(100):
    sequence = torch.randn(16, 60, 4)
    target = sequence.sum((1, 2)) / 10
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(sequence), target)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3g}")
