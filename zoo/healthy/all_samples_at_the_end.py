"""Small batches at first, and all samples at once for the last steps.

looks like: SameBatch
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 64, 0.02
torch.set_num_threads(1)

torch.manual_seed(SEED)
centres = torch.randn(10, 24)
labels = torch.randint(0, 10, (640,))
samples = centres[labels] + 0.8 * torch.randn(640, 24)
model = nn.Sequential(nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
opt = torch.optim.SGD(model.parameters(), LR, momentum=0.9)
for step in range(600):
    if step < 300:
        chosen = torch.randint(0, 640, (32,))
        x, y = samples[chosen], labels[chosen]
    else:
        x, y = samples, labels
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, loss.item())
