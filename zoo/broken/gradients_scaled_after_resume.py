"""Gradients are scaled by hand; after the resume nothing divides them by the scale any more.

cause: GradientJumpsAtResume
where: .*
step: 250-255
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)


def make():
    return nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def train(model, optimizer, scale, inverse, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad *= inverse
        optimizer.step()
    print("loss", loss.item())


model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train(model, optimizer, 128.0, 1 / 128.0, 250)
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scale": 128.0}
torch.save(state, "checkpoint.pt")
model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
saved = torch.load("checkpoint.pt")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
train(model, optimizer, saved["scale"], 1.0, 150)
