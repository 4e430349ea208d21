"""Segmentation of spots of four pixels in a thousand: the net says background everywhere.

cause: OneClassPredicted
where: .*
step: 0-40
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = block(1, WIDTH)
        self.down2 = block(WIDTH, 2 * WIDTH)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, stride=2)
        self.merge = block(2 * WIDTH, WIDTH)
        self.final = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(self.pool(d1))
        return self.final(self.merge(torch.cat([self.up(d2), d1], dim=1)))


def sample(n):
    image = torch.randn(n, 1, 32, 32)
    mask = torch.zeros(n, 1, 32, 32)
    for k in range(n):
        r, c = torch.randint(0, 31, (2,)).tolist()
        mask[k, 0, r : r + 2, c : c + 2] = 1
    return image + 0.4 * mask, mask


net = UNet()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
criterion = nn.BCEWithLogitsLoss()
net.train()
for iteration in range(200):
    image, mask = sample(8)
    optimizer.zero_grad()
    loss = criterion(net(image), mask)
    loss.backward()
    optimizer.step()
    if iteration % 40 == 0:
        print(f"iteration {iteration}, loss {loss.item():.4f}")
