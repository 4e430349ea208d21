"""`next(iter(loader))` in the loop of a loader that does not shuffle: always the first batch.

cause: SameBatch
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
loader = DataLoader(TensorDataset(x, torch.tensor(digits.target)), batch_size=32)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for _ in range(300):
    inputs, labels = next(iter(loader))
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
