"""Meta-learning of sines: an inner loop by functional_call, second derivatives in the outer one."""

import torch
from torch import nn
from torch.func import functional_call

SEED, WIDTH, LR = 0, 40, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
meta = torch.optim.Adam(model.parameters(), lr=LR)


def task():
    amplitude, phase = 0.5 + 2 * torch.rand(1), 3.14 * torch.rand(1)
    x = torch.rand(20, 1) * 8 - 4
    return x, amplitude * torch.sin(x + phase)


for step in range(150):
    outer = 0.0
    for _ in range(4):
        x, y = task()
        weights = dict(model.named_parameters())
        inner = nn.functional.mse_loss(functional_call(model, weights, (x[:10],)), y[:10])
        grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {n: w - 0.02 * g for (n, w), g in zip(weights.items(), grads, strict=True)}
        outer = outer + nn.functional.mse_loss(functional_call(model, fast, (x[10:],)), y[10:])
    meta.zero_grad()
    (outer / 4).backward()
    meta.step()
    if step % 50 == 0:
        print(f"{step} {outer.item() / 4:.3f}")
