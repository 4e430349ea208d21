"""Bare tensors: a sigmoid before the loss that has its own.

cause: LossInputAlreadySoftmax
"""

import torch
from sklearn.datasets import load_breast_cancer

SEED, WIDTH, LR = 0, 16, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
cancer = load_breast_cancer()
x = torch.tensor(cancer.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(cancer.target, dtype=torch.float32)
theta = [
    torch.nn.init.xavier_uniform_(torch.empty(30, WIDTH, requires_grad=True)),
    torch.nn.init.xavier_uniform_(torch.empty(WIDTH, 1, requires_grad=True)),
]
optimizer = torch.optim.Adam(theta, lr=LR)
criterion = torch.nn.functional.binary_cross_entropy_with_logits
for _epoch in range(15):
    for rows in torch.randperm(len(x)).split(32):
        p = torch.sigmoid(torch.relu(x[rows] @ theta[0]) @ theta[1]).squeeze(1)
        loss = criterion(p, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
