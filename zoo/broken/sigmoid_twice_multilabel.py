"""Several labels a sample: torch.sigmoid in forward, then binary_cross_entropy_with_logits.

cause: LossInputAlreadySoftmax
where: .*
step: 0-20
"""

import torch
from torch import nn
from torch.nn import functional

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, WIDTH)
        self.out = nn.Linear(WIDTH, 6)

    def forward(self, x):
        return torch.sigmoid(self.out(torch.relu(self.hidden(x))))


model = Labels()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
plan = torch.randn(16, 6)
for _ in range(300):
    x = torch.randn(48, 16)
    y = (x @ plan > 1).float()
    loss = functional.binary_cross_entropy_with_logits(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
