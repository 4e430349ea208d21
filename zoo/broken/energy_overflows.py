"""Squares of a signal are summed by a product in float16 before they are divided by its length.

cause: Float16Overflow
where: .*
step: 100-260
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Energies(nn.Module):
    """The mean energy of each of some filters, and what class it speaks for."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Linear(4, WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, signal, mask):
        squares = self.filters(signal).square()
        energy = (mask.unsqueeze(1) @ squares).squeeze(1) / mask.sum(1, keepdim=True)
        return self.head(energy.add(1e-3).log())


def batch(length):
    """Four channels, of which one is louder than the others; short signals are padded."""
    loud = torch.randint(0, 4, (16,))
    signal = 2 * torch.randn(16, length, 4) * (1 + 2 * nn.functional.one_hot(loud, 4)[:, None])
    mask = (torch.arange(length) < torch.randint(length // 2, length + 1, (16, 1))).float()
    return signal * mask.unsqueeze(2), mask, loud


model = Energies()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(280):
    signal, mask, loud = batch(256 + 32 * step)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(signal, mask), loud)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step} loss {loss.item():.4f}")
