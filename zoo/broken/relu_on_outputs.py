"""A ReLU after the last layer: scores of classes cannot be negative, and some units are dead.

cause: OutputRangeTooNarrow
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, WIDTH)
        self.out = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return F.relu(self.out(F.relu(self.hidden(x))))


digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
