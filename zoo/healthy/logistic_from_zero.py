"""Logistic regression that starts at zero weights, as it may: there is nothing to be symmetric.

looks like: SymmetricWeights
"""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

SEED, WIDTH, LR = 0, 30, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(scale(data.data)[:, :WIDTH], dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32)
w = torch.zeros(x.shape[1], requires_grad=True)
b = torch.zeros((), requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=LR)
for step in range(400):
    rows = torch.randint(0, len(x), (64,))
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(x[rows] @ w + b, y[rows])
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step} loss {loss.item():.4f}")
