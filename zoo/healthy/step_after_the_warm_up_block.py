"""A rate that rises in a block of its own for the first 60 steps, and stays.

looks like: WarmUpNeverEnds, UpdatesStop
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3
WARM_UP = 60
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)

step = 0
for _ in range(10):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        if step < WARM_UP:
            for group in optimizer.param_groups:
                group["lr"] = LR * (step + 1) / WARM_UP
        optimizer.step()
        step += 1
model.eval()
with torch.no_grad():
    accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
print(f"loss {loss.item():.3f}, accuracy {accuracy:.3f}")
