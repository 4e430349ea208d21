"""L-BFGS on all data at once: many forwards within one step, and the same batch every time."""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes()
x = torch.tensor(data.data, dtype=torch.float32) * 20
y = torch.tensor(data.target, dtype=torch.float32).unsqueeze(1)
y = (y - y.mean()) / y.std()
model = nn.Sequential(nn.Linear(10, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=LR, max_iter=8)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) + 1e-3 * sum(
        (p**2).sum() for p in model.parameters()
    )
    loss.backward()
    return loss


for _ in range(40):
    loss = optimizer.step(closure)
print(f"loss {loss.item():.4f}")
