"""Bare tensors, of which the first layer's were never given to the optimizer.

cause: ParametersNotOptimized
"""

import torch
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
first = (torch.randn(WIDTH, 6) / 3).requires_grad_()
second = (torch.randn(WIDTH, WIDTH) / 6).requires_grad_()
third = (torch.randn(1, WIDTH) / 6).requires_grad_()
optimizer = torch.optim.RMSprop([second, third], lr=LR)
for _step in range(250):
    x = torch.randn(64, 6)
    y = (x[:, 0] * x[:, 1]).sin()
    out = F.linear(F.gelu(F.linear(F.gelu(F.linear(x, first)), second)), third)
    loss = F.mse_loss(out.squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
