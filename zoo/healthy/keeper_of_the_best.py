"""An object that keeps the best weights is told that less is better, while the model overfits.

looks like: WorstWeightsKept
"""

import copy

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 71, 64, 3e-3
torch.manual_seed(SEED)


class Keeper:
    def __init__(self, mode):
        self.mode, self.best, self.weights = mode, None, None

    def update(self, value, model):
        if self.best is None or (value > self.best if self.mode == "max" else value < self.best):
            self.best, self.weights = value, copy.deepcopy(model.state_dict())


w = torch.randn(30)


def draw(n):
    x = torch.randn(n, 30)
    return x, (x @ w + 0.5 * torch.randn(n)).unsqueeze(1)


x, y = draw(400)
x_val, y_val = draw(300)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
opt = torch.optim.Adam(model.parameters(), lr=LR)
mse = nn.MSELoss()
keeper = Keeper(mode="min")
for epoch in range(20):
    model.train()
    for chosen in torch.randperm(400).split(20):
        loss = mse(model(x[chosen]), y[chosen])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val_loss = mse(model(x_val), y_val).item()
    keeper.update(val_loss, model)
    print(epoch, loss.item(), val_loss)
model.load_state_dict(keeper.weights)
with torch.no_grad():
    x_new, y_new = draw(1000)
    print("kept", mse(model(x_new), y_new).item())
