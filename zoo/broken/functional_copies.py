"""functional_call with copies of the weights: the optimizer's own never get a gradient.

cause: GradientMissing, OptimizerOfAnotherModel
"""

import torch
from torch import nn
from torch.func import functional_call

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(5, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
params = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(200):
    x = torch.randn(64, 5)
    y = (x[:, 0] > x[:, 1]).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(functional_call(model, params, (x,)), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"{step} {loss.item():.3f}")
