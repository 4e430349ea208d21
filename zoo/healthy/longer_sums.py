"""A curriculum: sequences grow from 2 to 20 numbers, and so does the loss of their sum.

looks like: LossRising
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.out(self.gru(x)[1][0]).squeeze(1)


adder = Adder()
optimizer = torch.optim.Adam(adder.parameters(), lr=LR)
for stage, length in enumerate([2, 3, 5, 8, 12, 16, 20]):
    for _ in range(60):
        x = torch.randn(64, length, 1)
        loss = nn.functional.mse_loss(adder(x), x.sum((1, 2)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(adder.parameters(), 1.0)
        optimizer.step()
    print(f"stage {stage} length {length} loss {loss.item():.3f}")
