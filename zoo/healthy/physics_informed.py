"""A physics-informed net: derivatives of its output in the loss, Adam first and L-BFGS after it."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)
        )

    def forward(self, t):
        return self.layers(t)


def derivative(of, by):
    return torch.autograd.grad(of, by, torch.ones_like(of), create_graph=True)[0]


def physics(model):
    t = (torch.rand(64, 1) * 4).requires_grad_()
    u = model(t)
    du = derivative(u, t)
    residual = derivative(du, t) + 0.4 * du + 4 * u
    zero = torch.zeros(1, 1, requires_grad=True)
    start = model(zero)
    return (
        (residual**2).mean()
        + 20 * ((start - 1) ** 2).mean()
        + 5 * (derivative(start, zero) ** 2).mean()
    )


model = PINN()
adam = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(300):
    adam.zero_grad()
    loss = physics(model)
    loss.backward()
    adam.step()
    if step % 100 == 0:
        print(f"adam {step} {loss.item():.4f}")
lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, history_size=10)
for _ in range(10):
    torch.manual_seed(SEED)

    def closure():
        lbfgs.zero_grad()
        torch.manual_seed(SEED)
        loss = physics(model)
        loss.backward()
        return loss

    loss = lbfgs.step(closure)
print(f"lbfgs {loss.item():.4f}")
