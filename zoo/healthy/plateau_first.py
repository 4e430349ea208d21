"""Parity of bits: the loss stays where it is for a while before it falls.

looks like: FadingGradient
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
                      nn.Linear(WIDTH, 2))  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for step in range(500):
    bits = torch.randint(0, 2, (64, 4)).float()
    optimizer.zero_grad()
    loss = criterion(model(2 * bits - 1), (bits.sum(1) % 2).long())
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step} loss {loss.item():.3f}")
