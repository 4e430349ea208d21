"""Keys of a wrapped model are renamed before they are loaded, into a model that goes on.

looks like: WeightsNotLoaded, WeightsPartlyLoaded
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
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train(model, optimizer, 200)
saved = {f"module.{name}": value for name, value in model.state_dict().items()}
state = {"model": saved, "optimizer": optimizer.state_dict(), "step": 200}
torch.save(state, "checkpoint.pt")
model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loaded = torch.load("checkpoint.pt")
kept = {name.removeprefix("module."): value for name, value in loaded["model"].items()}
print(model.load_state_dict(kept, strict=False))
optimizer.load_state_dict(loaded["optimizer"])
train(model, optimizer, 200)
