"""The checkpoint is of a wrapped model, and strict=False hides that none of its keys is loaded.

cause: WeightsNotLoaded
where: .*
step: 200-205
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)


def make():
    return nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def train(model, optimizer, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


model = make()
train(model, torch.optim.Adam(model.parameters(), lr=LR), 200)
saved = {f"module.{name}": value for name, value in model.state_dict().items()}
torch.save({"model": saved, "step": 200}, "checkpoint.pt")
model = make()
model.load_state_dict(torch.load("checkpoint.pt")["model"], strict=False)
train(model, torch.optim.Adam(model.parameters(), lr=LR), 200)
