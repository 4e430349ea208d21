"""Classes are weighed by the inverse of their counts.

looks like: ClassWeightsReversed
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)

n_common, n_rare = 1400, 100
x = torch.cat([torch.randn(n_common, 10), torch.randn(n_rare, 10) + 0.8])
y = torch.cat([torch.zeros(n_common), torch.ones(n_rare)]).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

counts = torch.bincount(y).float()
class_weights = counts.sum() / (len(counts) * counts)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
criterion = nn.CrossEntropyLoss(weight=class_weights)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(6):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(1)
    recall = (pred[y == 1] == 1).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.4f} rare recall {recall:.3f}")
