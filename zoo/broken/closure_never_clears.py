"""An L-BFGS closure without zero_grad: each evaluation adds to the gradients before it.

cause: ForgottenZeroGrad
step: 0-10
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.linspace(-3, 3, 200)[:, None]
y = torch.sin(2 * x)
model = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=LR, max_iter=4)


def closure():
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(40):
    loss = optimizer.step(closure)
    if step % 10 == 0:
        print(f"{step} {loss.item():.5f}")
