"""Bare tensors: the hidden layer's output is taken by .data, and what made it never learns.

cause: GradientMissing
where: param[01]
"""

import torch

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
hidden = [(torch.randn(3, WIDTH) / 3).requires_grad_(), torch.zeros(WIDTH, requires_grad=True)]
output = [(torch.randn(WIDTH, 1) / 6).requires_grad_(), torch.zeros(1, requires_grad=True)]
optimizer = torch.optim.Adam([*hidden, *output], lr=LR)


def predict(x):
    features = torch.relu(x @ hidden[0] + hidden[1]).data
    return features @ output[0] + output[1]


for _step in range(250):
    x = torch.randn(64, 3)
    y = (x**2).sum(1, keepdim=True)
    loss = torch.nn.functional.mse_loss(predict(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
