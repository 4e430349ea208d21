"""Bare tensors, and gradients that are never cleared.

cause: ForgottenZeroGrad
step: 0-5
"""

import torch

SEED, WIDTH, LR = 0, 20, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
w1 = torch.randn(2, WIDTH, requires_grad=True)
b1 = torch.zeros(WIDTH, requires_grad=True)
w2 = (torch.randn(WIDTH, 1) / WIDTH**0.5).requires_grad_()
optimizer = torch.optim.SGD([w1, b1, w2], lr=LR, momentum=0.5)
for step in range(300):
    x = torch.randn(64, 2)
    y = (x.prod(1, keepdim=True) > 0).float()
    score = torch.tanh(x @ w1 + b1) @ w2
    loss = torch.nn.functional.binary_cross_entropy_with_logits(score, y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, round(loss.item(), 4))
