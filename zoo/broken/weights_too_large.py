"""Weights drawn from N(0, 1) in a ReLU network: the first loss is in the thousands.

cause: WeightsTooLarge
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 128, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.third = nn.Linear(WIDTH, 10)
        for layer in (self.first, self.second, self.third):
            nn.init.normal_(layer.weight)

    def forward(self, x):
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _ in range(200):
    rows = torch.randint(0, len(x), (32,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
