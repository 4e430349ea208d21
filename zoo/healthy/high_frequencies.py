"""A picture as a function of its coordinates: the first layer has large weights, for high waves.

looks like: WeightsTooLarge
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.waves = nn.Linear(2, WIDTH)
        nn.init.normal_(self.waves.weight, std=15.0)
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, places):
        return self.net(self.waves(places).sin()).squeeze(1)


def picture(places):
    across, down = places.T
    return (18 * across).sin() * (14 * down + 6 * across).cos()


model = Waves()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(600):
    places = 2 * torch.rand(256, 2) - 1
    loss = nn.functional.mse_loss(model(places), picture(places))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step} loss {loss.item():.4f}")
