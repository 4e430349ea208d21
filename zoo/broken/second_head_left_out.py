"""Two tasks on one trunk: the second head was added after the optimizer was made.

cause: ParametersNotOptimized
where: age
step: 0-10
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, WIDTH), nn.GELU())
        self.kind = nn.Linear(WIDTH, 4)

    def forward(self, x):
        hidden = self.trunk(x)
        return self.kind(hidden), self.age(hidden).squeeze(1)


model = TwoTasks()
optimizer = torch.optim.Adagrad(model.parameters(), lr=LR)
model.age = nn.Linear(WIDTH, 1)
wanted = torch.randn(12, 4)
for _ in range(250):
    x = torch.randn(64, 12)
    kind, age = (x @ wanted).argmax(1), x[:, 0] + 0.5 * x[:, 1]
    scores, guess = model(x)
    loss = nn.functional.cross_entropy(scores, kind) + nn.functional.smooth_l1_loss(guess, age)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
