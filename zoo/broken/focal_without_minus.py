"""A focal loss without its minus sign: right classes become less likely.

cause: LossWithoutBound
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
centers = torch.randn(3, 10) * 1.5


def focal_loss(logits, target, gamma=2.0):
    logp = F.log_softmax(logits, dim=1).gather(1, target[:, None]).squeeze(1)
    p = logp.exp()
    return ((1 - p) ** gamma * logp).mean()


model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(250):
    y = torch.randint(0, 3, (64,))
    x = centers[y] + torch.randn(64, 10)
    out = model(x)
    loss = focal_loss(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (out.argmax(1) == y).float().mean().item())
