"""Labels are smoothed by the script, and by the loss once more.

cause: SmoothedTwice
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 48, 1e-3
torch.manual_seed(SEED)
centers = torch.randn(5, 16) * 2


def smooth(y, k=5, eps=0.3):
    return F.one_hot(y, k).float() * (1 - eps) + eps / k


model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))
criterion = nn.CrossEntropyLoss(label_smoothing=0.3)
opt = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(250):
    y = torch.randint(0, 5, (64,))
    x = centers[y] + torch.randn(64, 16)
    loss = criterion(model(x), smooth(y))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
