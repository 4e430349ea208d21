"""A large embedding of which each batch touches a few rows, with sparse gradients."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

tokens = torch.randint(0, 5000, (2000, 10)) ** 2 // 5000
weights = torch.randn(5000)
labels = (weights[tokens].sum(1) > 0).long()
model = nn.Sequential(nn.EmbeddingBag(5000, WIDTH, sparse=True), nn.Linear(WIDTH, 2))
sparse = torch.optim.SparseAdam(model[0].parameters(), lr=LR)
dense = torch.optim.Adam(model[1].parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    for rows in torch.randperm(len(tokens)).split(25):
        sparse.zero_grad()
        dense.zero_grad()
        loss = criterion(model(tokens[rows]), labels[rows])
        loss.backward()
        sparse.step()
        dense.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
