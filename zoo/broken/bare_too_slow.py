"""Bare tensors and an Adagrad rate of a millionth.

cause: LearningRateTooLow
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine

SEED, WIDTH, LR = 0, 32, 1e-6
torch.manual_seed(SEED)
torch.set_num_threads(1)
wine = load_wine()
x = torch.tensor(wine.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(wine.target)


def dense(fan_in, fan_out):
    return (torch.randn(fan_in, fan_out) / fan_in**0.5).requires_grad_(), torch.zeros(
        fan_out
    ).requires_grad_()


layers = [dense(13, WIDTH), dense(WIDTH, 3)]
optimizer = torch.optim.Adagrad([t for layer in layers for t in layer], lr=LR)
for _epoch in range(40):
    for rows in torch.randperm(len(x)).split(20):
        h = torch.relu(x[rows] @ layers[0][0] + layers[0][1])
        loss = F.nll_loss(F.log_softmax(h @ layers[1][0] + layers[1][1], dim=1), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
