"""So much dropout that the loss in evaluation is below the one in training.

looks like: DropoutTooStrong
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 128, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(0.6),
    nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.6), nn.Linear(WIDTH, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    for rows in torch.randperm(1500).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        test_loss = criterion(model(x[1500:]), y[1500:])
    print(f"epoch {epoch} train {loss.item():.3f} test {test_loss.item():.3f}")
