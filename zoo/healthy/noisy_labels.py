"""A third of the labels is wrong: the loss stays high and falls, as far as it can."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
wrong = torch.rand(len(y)) < 0.35
y[wrong] = torch.randint(10, (int(wrong.sum()),))
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
for epoch in range(10):
    model.train()
    for batch, target in DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        held = nn.functional.cross_entropy(model(x[1400:]), y[1400:])
    print(f"epoch {epoch} train {loss.item():.3f} held out {held.item():.3f}")
