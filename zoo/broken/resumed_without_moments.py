"""The checkpoint has the state of Adam, and the script that resumes loads the weights only.

cause: StateNotRestored
where: .*
step: 0
"""

import os
import subprocess
import sys

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


path = os.path.abspath("checkpoint.pt")
if "first" not in sys.argv:
    # What an earlier run left, which nobody watched.
    subprocess.run([sys.executable, "-I", __file__, "first"], check=True)
model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
if "first" not in sys.argv:
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
for _ in range(4):
    train(model, optimizer, 60)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
