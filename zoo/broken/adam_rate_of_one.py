"""Adam with a learning rate of 1 for a small regression: it stays at the mean, or worse.

cause: LearningRateTooHigh
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1.0
torch.manual_seed(SEED)
torch.set_num_threads(1)
np.random.seed(SEED)

t = np.sort(np.random.uniform(-3, 3, 400)).astype("float32")
signal = np.sin(2 * t) + 0.1 * np.random.randn(400).astype("float32")
inputs, targets = torch.from_numpy(t)[:, None], torch.from_numpy(signal)[:, None]

model = nn.Sequential(
    nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for i in range(400):
    pick = np.random.choice(400, 50)
    loss = nn.functional.smooth_l1_loss(model(inputs[pick]), targets[pick])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 50 == 0:
        print(f"iteration {i}: {loss.item():.3f}")
