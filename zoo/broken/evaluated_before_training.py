"""The accuracy that every epoch prints was computed before the first step.

cause: EvaluatedBeforeTraining
where: .*
step: 0-400
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
x = torch.randn(1200, 10)
y = (x[:, :4].sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=50)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
opt = torch.optim.Adam(model.parameters(), lr=LR)


def accuracy():
    model.eval()
    with torch.no_grad():
        hits = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in val_loader)
    model.train()
    return hits / 200


val_acc = accuracy()
for epoch in range(6):
    for xb, yb in train_loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
    print(epoch, loss.item(), val_acc)
