"""Optimizer and schedule are restored in the same process, and the rate goes on.

looks like: RateJumpsAtResume
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)


def make():
    return nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def train(model, optimizer, schedule, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print("loss", loss.item())


model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.985)
train(model, optimizer, schedule, 250)
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 250}
state["schedule"] = schedule.state_dict()
torch.save(state, "checkpoint.pt")
model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
saved = torch.load("checkpoint.pt")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.985)
schedule.load_state_dict(saved["schedule"])
train(model, optimizer, schedule, 150)
