"""Training data are scaled, the test data are not.

cause: EvaluationInputDiffers
where: .*
step: 30-120
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32)
y = torch.tensor(digits.target)
train_x, test_x = (x[:1400] - x[:1400].mean()) / x[:1400].std(), x[1400:]
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    for rows in torch.randperm(1400).split(32):
        optimizer.zero_grad()
        loss = criterion(model(train_x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        test_loss = criterion(model(test_x), y[1400:])
    print(f"epoch {epoch} train {loss.item():.3f} test {test_loss.item():.3f}")
