"""0.98 was meant as the share to keep: dropout takes away nearly everything.

cause: DropoutTooStrong
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Linear(64, WIDTH),
    nn.ReLU(),
    nn.Dropout(0.98),
    nn.Linear(WIDTH, WIDTH),
    nn.ReLU(),
    nn.Dropout(0.98),
    nn.Linear(WIDTH, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(7):
    model.train()
    for rows in torch.randperm(1500).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(f"epoch {epoch} {(model(x[1500:]).argmax(1) == y[1500:]).float().mean():.3f}")
