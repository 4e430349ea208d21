"""After each stage the best checkpoint is loaded again and the rate is lowered, on purpose.

looks like: LossJumpsAtResume
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
for stage in range(4):
    train(model, optimizer, 100)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "stage": stage}
    torch.save(state, "best.pt")
    train(model, optimizer, 20)
    model.load_state_dict(torch.load("best.pt")["model"])
    for group in optimizer.param_groups:
        group["lr"] *= 0.3
