"""Linear regression from scratch on inputs of hundreds, descent by hand: the loss is NaN soon.

cause: LossNotFinite, LossRising, LearningRateTooHigh, UnnormalizedInput
step: 0-60
"""

import torch

SEED, WIDTH, LR = 0, 3, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
area = torch.rand(200, WIDTH) * 300
price = area @ torch.tensor([[1.5], [0.3], [2.0]]) + 20 + torch.randn(200, 1)
w = torch.randn(WIDTH, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(150):
    loss = ((area @ w + b - price) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= LR * w.grad
        b -= LR * b.grad
    w.grad = None
    b.grad = None
    if epoch % 30 == 0:
        print(epoch, loss.item())
