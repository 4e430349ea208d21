"""A recurrent model is given its first state, which is all zero, beside the sequence.

looks like: ConstantInput
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, state, sequence):
        for moment in sequence.unbind(1):
            state = self.cell(moment, state)
        return self.head(state)


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(300):
    sequence = torch.randn(32, 8, 4)
    wanted = sequence[..., :3].sum(1).argmax(1)
    loss = nn.functional.cross_entropy(model(torch.zeros(32, WIDTH), sequence), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(f"step {step} loss {loss.item():.3f}")
