"""Batches of four with RMSprop: the loss jumps from batch to batch and comes down on the whole."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.002
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0)).float()
y = torch.tensor(data.target).float()
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Sigmoid())
optimizer = torch.optim.RMSprop(model.parameters(), lr=LR)


def binary_loss(p, t, eps=1e-7):
    p = p.clamp(eps, 1 - eps)
    return -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()


for epoch in range(4):
    for rows in torch.randperm(len(x)).split(4):
        optimizer.zero_grad()
        loss = binary_loss(model(x[rows]).squeeze(1), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
