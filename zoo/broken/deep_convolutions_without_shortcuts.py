"""Twenty-four Conv1d with ReLU in a row for signals, neither norm nor shortcut.

cause: FadingGradient, WeightsTooSmall, OutputIgnoresInput
where: .*
step: 0-150
"""

import torch
import torch.nn.functional as F
from torch import nn, optim

SEED, WIDTH, LR = 0, 12, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class DeepSignalNet(nn.Module):
    def __init__(self, depth, classes):
        super().__init__()
        self.stem = nn.Conv1d(2, WIDTH, 5, padding=2)
        self.convs = nn.ModuleList([nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(depth)])
        self.out = nn.Linear(WIDTH, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for conv in self.convs:
            x = F.relu(conv(x))
        return self.out(x.mean(dim=2))


def batches(count, size=32):
    for _ in range(count):
        y = torch.randint(0, 4, (size,))
        t = torch.linspace(0, 6.283, 48)
        wave = torch.stack([torch.sin((y[:, None] + 1) * t), torch.cos((y[:, None] + 1) * t)], 1)
        yield wave + 0.3 * torch.randn_like(wave), y


net = DeepSignalNet(24, 4)
optimizer = optim.SGD(net.parameters(), lr=LR * 20, momentum=0.9)
for n, (x, y) in enumerate(batches(250)):
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if n % 50 == 0:
        print("step", n, "loss", float(loss))
