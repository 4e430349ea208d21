"""From scratch: bare tensors, a loss of one's own and gradient descent by hand."""

import torch

SEED, WIDTH, LR = 0, 24, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.rand(400, 1) * 6 - 3
y = torch.sin(x) + 0.05 * torch.randn_like(x)
w1 = torch.randn(1, WIDTH, requires_grad=True)
b1 = torch.randn(WIDTH, requires_grad=True)
w2 = (torch.randn(WIDTH, 1) / WIDTH**0.5).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
for step in range(500):
    rows = torch.randint(400, (50,))
    predicted = torch.tanh(x[rows] @ w1 + b1) @ w2 + b2
    loss = ((predicted - y[rows]) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for parameter in (w1, b1, w2, b2):
            parameter -= LR * parameter.grad
            parameter.grad.zero_()
    if step % 100 == 0:
        print(f"{step} {loss.item():.4f}")
