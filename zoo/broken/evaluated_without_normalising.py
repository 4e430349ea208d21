"""Training images are normalised, evaluation images only scaled to [0, 1].

cause: EvaluationInputDiffers
where: .*
step: 0-21
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
y = torch.randint(0, 4, (700,))
img = torch.rand(700, 1, 8, 8) * 120
for i, c in enumerate(y):
    img[i, 0, c * 2] += 90
mean, std = (0.28, 0.17)


def train_t(a):
    return (a / 255 - mean) / std


def eval_t(a):
    return a / 255


model = nn.Sequential(nn.Conv2d(1, WIDTH, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * WIDTH, 4))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    model.train()
    for i in torch.randperm(500).split(25):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(train_t(img[i])), y[i])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(eval_t(img[500:]))
        print(
            epoch,
            nn.functional.cross_entropy(out, y[500:]).item(),
            (out.argmax(1) == y[500:]).float().mean().item(),
        )
