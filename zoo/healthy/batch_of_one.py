"""Plain SGD one sample at a time, with layer norm.

looks like: BatchNormOfOneSample
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for _step, row in enumerate(torch.randperm(len(x))[:600]):
    optimizer.zero_grad()
    loss = criterion(model(x[row].unsqueeze(0)), y[row].unsqueeze(0))
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
