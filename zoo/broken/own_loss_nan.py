"""A cross-entropy of one's own, log of a hand-made softmax: exp overflows, and the loss is NaN.

cause: LossNotFinite, LearningRateTooHigh
where: .*
step: 0-250
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = 3 * torch.randn(1500, 12)
y = (x @ torch.randn(12, 5)).argmax(1)
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)


def cross_entropy(scores, labels):
    e = torch.exp(4 * scores)
    p = e / e.sum(1, keepdim=True)
    return -torch.log(p[torch.arange(len(labels)), labels]).mean()


for epoch in range(8):
    for rows in torch.randperm(len(x)).split(50):
        loss = cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
