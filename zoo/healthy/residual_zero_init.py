"""Residual blocks whose last layer starts at zero, so that each block starts as the identity.

looks like: SymmetricWeights
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.one, self.two = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        nn.init.zeros_(self.two.weight)
        nn.init.zeros_(self.two.bias)

    def forward(self, x):
        return x + self.two(nn.functional.gelu(self.one(self.norm(x))))


model = nn.Sequential(nn.Linear(10, WIDTH), Block(), Block(), Block(), nn.Linear(WIDTH, 1))
nn.init.zeros_(model[-1].weight)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
for _ in range(300):
    x = torch.randn(64, 10)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
