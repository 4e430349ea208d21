"""ReduceLROnPlateau in mode "min" is given the accuracy, and lowers the rate while it rises.

cause: LearningRateZero
step: 0-400
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 2e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
for epoch in range(30):
    model.train()
    for features, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), target)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
    scheduler.step(accuracy)
    print(f"epoch {epoch} accuracy {accuracy:.3f} rate {optimizer.param_groups[0]['lr']:.1e}")
