"""A training is resumed with its decayed rate, and its schedule goes on where it was.

looks like: OldRateBroughtBack
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)


def make():
    model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)


def train(model, optimizer, schedule, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print("loss", loss.item(), "rate", schedule.get_last_lr()[0])


model, optimizer, schedule = make()
train(model, optimizer, schedule, 260)
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
state["schedule"] = schedule.state_dict()
torch.save(state, "checkpoint.pt")
model, optimizer, schedule = make()
saved = torch.load("checkpoint.pt")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
schedule.load_state_dict(saved["schedule"])
train(model, optimizer, schedule, 140)
