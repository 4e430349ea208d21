"""The features are detached on their way to the head: the convolutions never learn.

cause: GradientMissing
where: features
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3), nn.ReLU()
        )
        self.head = nn.Linear(WIDTH * 16, 10)

    def forward(self, x):
        features = self.features(x).flatten(1).detach()
        return self.head(features)


digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for _ in range(200):
    rows = torch.randint(0, len(x), (32,))
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
