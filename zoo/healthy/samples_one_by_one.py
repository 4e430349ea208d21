"""The samples of each batch pass the model one by one, and one update uses them all.

looks like: OneSampleOfBatch
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

for _ in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        for sample, label in zip(inputs.split(1), labels.split(1), strict=True):
            loss = nn.functional.cross_entropy(model(sample), label) / len(inputs)
            loss.backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
print(f"loss {loss.item():.3f}, accuracy {accuracy:.3f}")
