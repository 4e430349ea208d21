"""Adversarial training whose perturbations grow: what is learnt gets harder, the loss rises.

looks like: LossRising
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
EPOCHS = 14
for epoch in range(EPOCHS):
    epsilon = 0.2 * max(0, epoch - 3) / EPOCHS
    for rows in torch.randperm(len(images)).split(64):
        x, y = images[rows], labels[rows]
        if epsilon > 0:
            x = x.clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(F.cross_entropy(model(x), y), x)
            x = (x + epsilon * gradient.sign()).clamp(0, 1).detach()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} epsilon {epsilon:.2f} loss {loss.item():.3f}")
