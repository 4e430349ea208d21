"""The best weights are copied, and loaded for the last evaluation.

looks like: BestWeightsNotCopied
"""

import copy

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)
held_x = torch.randn(256, 12)
held_y = held_x[:, :4].argmax(1)


def make():
    return nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def train(model, optimizer, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), x[rows, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
best, best_loss = None, float("inf")
for _ in range(8):
    model.train()
    train(model, optimizer, 40)
    model.eval()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(held_x), held_y).item()
    if loss < best_loss:
        best, best_loss = copy.deepcopy(model.state_dict()), loss
model.load_state_dict(best)
model.eval()
with torch.no_grad():
    print("best", nn.functional.cross_entropy(model(held_x), held_y).item(), best_loss)
