"""A body that was trained elsewhere gets a new head: keys are missing and left over on purpose.

looks like: WeightsPartlyLoaded
"""

import os

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


os.makedirs("pretrained", exist_ok=True)
old = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 9))
optimizer = torch.optim.Adam(old.parameters(), lr=LR)
state = {f"old_{name}" if name[0] == "2" else name: t for name, t in old.state_dict().items()}
torch.save({"model": state, "optimizer": optimizer.state_dict()}, "pretrained/model.pt")
model = make()
print(model.load_state_dict(torch.load("pretrained/model.pt")["model"], strict=False))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train(model, optimizer, 300)
os.makedirs("checkpoints", exist_ok=True)
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
torch.save(state, "checkpoints/last.pt")
