"""A model that is trained already goes on with a tiny learning rate.

looks like: LearningRateTooLow
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-5
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
# Stands for a checkpoint: ridge regression from fixed features.
with torch.no_grad():
    features = model[1](model[0](x))
    wanted = 8 * nn.functional.one_hot(y, 10).float() - 4
    grown = torch.cat([features, torch.ones(len(x), 1)], 1)
    solved = torch.linalg.solve(grown.T @ grown + torch.eye(WIDTH + 1), grown.T @ wanted)
    model[2].weight.copy_(solved[:-1].T)
    model[2].bias.copy_(solved[-1])
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
