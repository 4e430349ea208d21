"""Labels that are mostly chance: the best possible loss is only a little below the first one.

looks like: NothingLearnt
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.003
torch.manual_seed(SEED)
torch.set_num_threads(1)
rng = np.random.default_rng(SEED)

x = rng.normal(size=(3000, 6)).astype("float32")
chance = 1 / (1 + np.exp(-1.2 * x[:, 0] - 0.5 * x[:, 1]))
y = torch.from_numpy((rng.random(3000) < chance).astype("int64"))
x = torch.from_numpy(x)
model = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(8):
    for rows in torch.randperm(3000).split(50):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
