"""A learning rate far too high kills the ReLUs in the first steps.

cause: LearningRateTooHigh, DeadLayer
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 128, 5.0
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 16, WIDTH)
        self.fc2 = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)

for _ in range(200):
    rows = torch.randint(0, len(x), (32,))
    loss = F.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
