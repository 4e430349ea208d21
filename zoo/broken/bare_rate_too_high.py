"""Bare tensors in a list, no module at all, and a rate of 30.

cause: LearningRateTooHigh
step: 0-10
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

SEED, WIDTH, LR = 0, 48, 30.0
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
weights = [
    (torch.randn(WIDTH, 64) / 8).requires_grad_(),
    (torch.randn(10, WIDTH) / 7).requires_grad_(),
]
biases = [torch.zeros(WIDTH, requires_grad=True), torch.zeros(10, requires_grad=True)]
optimizer = torch.optim.SGD(weights + biases, lr=LR)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(64):
        hidden = F.relu(F.linear(x[rows], weights[0], biases[0]))
        loss = F.cross_entropy(F.linear(hidden, weights[1], biases[1]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} {loss.item():.3f}")
