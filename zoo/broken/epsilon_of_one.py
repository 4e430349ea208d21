"""Adam with an epsilon of 1, from a recipe for another net: updates are next to nothing.

cause: LearningRateTooLow, OptimizerSettings
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
net = nn.Sequential(
    nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
)
optimizer = torch.optim.Adam(net.parameters(), lr=LR, eps=1.0)
for epoch in range(6):
    running = 0.0
    for batch in torch.randperm(len(x)).split(32):
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        net.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(f"epoch {epoch}: {running / 57:.4f}")
