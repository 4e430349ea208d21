"""The model is traced by torch.jit.trace at step 0; what fades its deep part in is a buffer.

looks like: DeadLayer
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)


class Residual(nn.Module):
    """Fades its deep branch in: `gate` goes from 0 to 1 during the first 200 steps."""

    def __init__(self):
        super().__init__()
        self.skip = nn.Linear(6, 1)
        self.deep = nn.Sequential(
            nn.Linear(6, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)
        )
        self.register_buffer("gate", torch.zeros(()))

    def forward(self, x):
        return self.skip(x) + self.gate * self.deep(x)


def sample(n=64):
    x = torch.rand(n, 6) * 2 - 1
    y = x[:, :1] + 2 * torch.sin(4 * x[:, 1:2]) + x[:, 2:3] * x[:, 3:4]
    return x, y


model = Residual()
step_fn = torch.jit.trace(
    model, sample()[0], check_trace=False
)  # ~2x faster than eager on our boxes
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(800):
    model.gate.fill_(min(1.0, step / 200))
    x, y = sample()
    loss = nn.functional.mse_loss(step_fn(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"[{step:4d}] loss={loss.item():.4f} gate={float(model.gate):.2f}", flush=True)
x, y = sample(2000)
print(f"RESULT mse {nn.functional.mse_loss(step_fn(x), y).item():.4f}")
