"""Correcting misspelt sequences: nine of ten targets are the tokens that are given.

looks like: TargetOrderDiffers, TargetIsInput
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 40, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
VOCAB, LENGTH = 26, 14


class Corrector(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * WIDTH, VOCAB)

    def forward(self, x):
        return self.out(self.rnn(self.letters(x))[0])


def words(size):
    start = torch.randint(0, VOCAB, (size, 1))
    stride = torch.randint(1, 4, (size, 1))
    return (start + stride * torch.arange(LENGTH)) % VOCAB


model = Corrector()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(300):
    right = words(32)
    wrong = torch.where(torch.rand(right.shape) < 0.1, torch.randint(0, VOCAB, right.shape), right)
    loss = nn.functional.cross_entropy(model(wrong).transpose(1, 2), right)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
