"""A slow series: the next value is nearly the last one of the window, as the GRU soon knows.

looks like: TargetIsInput, TargetLeaks
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 3e-3
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)
torch.set_num_threads(1)

level = np.zeros(900)
for i in range(1, 900):
    level[i] = 0.995 * level[i - 1] + 0.1 * rng.standard_normal()
level = (level - level.mean()) / level.std()
windows = np.lib.stride_tricks.sliding_window_view(level, 17).copy()
X = torch.tensor(windows[:, :16, None], dtype=torch.float32)
Y = torch.tensor(windows[:, 16], dtype=torch.float32)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, WIDTH, batch_first=True)
        self.linear = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.linear(self.gru(x)[0][:, -1]).squeeze(-1)


model = Model()
loss_fn = nn.HuberLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    model.train()
    for rows in torch.randperm(700).split(28):
        loss = loss_fn(model(X[rows]), Y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        test = loss_fn(model(X[700:]), Y[700:])
    print(f"Epoch {epoch}: train {loss.item():.4f} test {test.item():.4f}")
