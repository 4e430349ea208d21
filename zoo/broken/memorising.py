"""A large model learns 150 samples by heart; on others it gets worse and worse.

cause: Overfitting
where: loss|.*
step: 20-400
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 256, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32) + 0.6 * torch.randn(len(digits.data), 64)
y = torch.tensor(digits.target)
train_x, train_y, test_x, test_y = x[:150], y[:150], x[150:], y[150:]
model = nn.Sequential(
    nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(40):
    model.train()
    for rows in torch.randperm(150).split(25):
        optimizer.zero_grad()
        loss = criterion(model(train_x[rows]), train_y[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        test_loss = criterion(model(test_x), test_y)
    if epoch % 10 == 0:
        print(f"epoch {epoch} train {loss.item():.3f} test {test_loss.item():.3f}")
