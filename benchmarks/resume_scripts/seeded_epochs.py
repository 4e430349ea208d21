"""The order of each epoch has a seed of its own, and nothing else is random: no state of a
generator needs to be saved."""

from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
x = torch.randn(256, 6)
y = x @ torch.randn(6, 1) + 0.1 * torch.randn(256, 1)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
folder = Path("checkpoints")
folder.mkdir(exist_ok=True)
first_epoch = 0
if written := sorted(folder.glob("epoch-*.pt")):
    saved = torch.load(written[-1])
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first_epoch = saved["epoch"] + 1
for epoch in range(first_epoch, 5):
    order = torch.randperm(256, generator=torch.Generator().manual_seed(epoch))
    for rows in order.split(32):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, folder / f"epoch-{epoch}.pt")
