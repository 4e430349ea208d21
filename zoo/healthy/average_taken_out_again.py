"""The average is loaded for each evaluation, and what was trained is loaded after it.

looks like: AverageLeftIn
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 8, 5e-2
torch.set_num_threads(1)


random.seed(SEED)
torch.manual_seed(SEED)
model = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(4 * WIDTH, 4),
)
ema_state = {k: v.detach().clone() for k, v in model.state_dict().items()}
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)


def images(n):
    y = torch.randint(0, 4, (n,))
    x = 0.3 * torch.randn(n, 1, 8, 8)
    for i, k in enumerate(y.tolist()):
        r, c = divmod(k, 2)
        x[i, 0, r * 4 : r * 4 + 4, c * 4 : c * 4 + 4] += 0.7
    return x, y


def update_ema(decay=0.998):
    with torch.no_grad():
        for k, v in model.state_dict().items():
            ema_state[k].lerp_(v, 1 - decay)


def evaluate():
    live = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(ema_state)
    model.eval()
    x, y = images(256)
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    model.load_state_dict(live)
    return acc


for epoch in range(8):
    for _it in range(40):
        x, y = images(32)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema()
    print(f"epoch {epoch} train_loss {loss.item():.4f} ema_acc {evaluate():.3f}")
