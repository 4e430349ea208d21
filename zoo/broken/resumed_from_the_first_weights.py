"""A copy that was made before training is saved instead of the model: the loss jumps at the resume.

cause: LossJumpsAtResume
where: .*
step: 300-305
"""

import copy

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
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
kept = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train(model, optimizer, 300)
state = {"model": kept.state_dict(), "optimizer": optimizer.state_dict(), "step": 300}
torch.save(state, "checkpoint.pt")
saved = torch.load("checkpoint.pt")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
train(model, optimizer, 100)
