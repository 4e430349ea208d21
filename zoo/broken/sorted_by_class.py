"""The data come sorted by class and nobody shuffles them.

cause: UnshuffledLabels
where: .*
step: 0
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
order = np.argsort(digits.target, kind="stable")
x = torch.tensor(digits.data[order] / 16, dtype=torch.float32)
y = torch.tensor(digits.target[order])
loader = DataLoader(TensorDataset(x, y), batch_size=16)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
