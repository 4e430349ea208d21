"""Triplet loss: soon most batches have a loss of exactly zero, and no gradient at all."""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 48, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
of_class = [torch.nonzero(y == c).flatten() for c in range(10)]
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.TripletMarginLoss(margin=0.5)
for _ in range(350):
    anchors, others, apart = [], [], []
    for one in torch.randint(0, 10, (16,)).tolist():
        a, b = of_class[one][torch.randint(0, len(of_class[one]), (2,))].tolist()
        two = (one + int(torch.randint(1, 10, ()))) % 10
        anchors.append(a)
        others.append(b)
        apart.append(int(of_class[two][torch.randint(0, len(of_class[two]), ())]))
    loss = criterion(model(x[anchors]), model(x[others]), model(x[apart]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
