"""A detector of two losses of unlike size; both fall.

looks like: LossTermDominates
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 12, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Head(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, features) * features**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.heads = nn.ModuleDict({"kind": Head(64 * WIDTH, 3), "box": Head(64 * WIDTH, 2)})

    def forward(self, x):
        x = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x))))
        x = F.avg_pool2d(x, 1).flatten(1)
        return {name: head(x) for name, head in self.heads.items()}


net = Detector()
optimizer = torch.optim.Adam(
    [
        {"params": net.conv1.parameters()},
        {"params": net.conv2.parameters()},
        {"params": net.heads.parameters(), "lr": LR / 2},
    ],
    lr=LR,
)
for step in range(250):
    kind = torch.randint(0, 3, (32,))
    where = torch.randint(1, 14, (32, 2))
    image = 0.1 * torch.randn(32, 1, 16, 16)
    for k, (r, c) in enumerate(where.tolist()):
        image[k, 0, r - 1 : r + 2, c] += 1
        if kind[k] > 0:
            image[k, 0, r, c - 1 : c + 2] += 1
        if kind[k] > 1:
            image[k, 0, r - 1, c - 1] += 2
    out = net(image)
    loss = 5.0 * F.smooth_l1_loss(out["box"], where.float()) + F.cross_entropy(out["kind"], kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"{step}: {loss.item():.3f}")
