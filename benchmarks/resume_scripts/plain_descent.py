"""Gradient descent without momentum has no state: weights and a counter are all that is saved."""

from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)
x = torch.randn(128, 5)
y = x @ torch.randn(5, 1)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
path = Path("checkpoints/last.pt")
path.parent.mkdir(exist_ok=True)
num_steps = 0
if path.exists():
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    num_steps = saved["num_steps"]
for _ in range(num_steps, 40):
    optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (num_steps + 1) / 20)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    num_steps += 1
    if num_steps % 8 == 0:
        print(f"step {num_steps}: loss {loss.item():.4f}")
        torch.save({"model": model.state_dict(), "num_steps": num_steps}, path)
