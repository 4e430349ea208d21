"""Five models of one ensemble, trained side by side on samples of their own."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 16, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target, dtype=torch.float32)
members = [nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)) for _ in range(5)]
optimizers = [torch.optim.Adam(each.parameters(), lr=LR) for each in members]
bags = [torch.randint(400, (400,)) for _ in members]
loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(8):
    for member, optimizer, bag in zip(members, optimizers, bags, strict=True):
        member.train()
        for rows in bag[torch.randperm(400)].split(40):
            optimizer.zero_grad()
            loss = loss_fn(member(x[rows]).squeeze(-1), y[rows])
            loss.backward()
            optimizer.step()
    for member in members:
        member.eval()
    with torch.no_grad():
        votes = torch.stack([member(x[400:]).squeeze(-1).sigmoid() for member in members]).mean(0)
    print(f"epoch {epoch} accuracy {((votes > 0.5) == y[400:].bool()).float().mean().item():.3f}")
