"""Nobody calls model.eval(): dropout and batch norm go on as in training while it is tested.

cause: EvaluationInTrainingMode
where: .*
step: 0-120
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
    nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    for rows in torch.randperm(1500).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = sum(
            (model(x[rows]).argmax(1) == y[rows]).sum().item()
            for rows in torch.arange(1500, len(x)).split(32)
        )
    print(f"epoch {epoch} accuracy {right / (len(x) - 1500):.3f}")
