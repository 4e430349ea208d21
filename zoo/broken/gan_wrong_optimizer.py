"""The generator's optimizer was given the discriminator's parameters, by copy and paste.

cause: ParametersNotOptimized
where: Generator|main|generator
step: 0-20
"""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 2e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Generator(nn.Module):
    def __init__(self, nz):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(nz, WIDTH),
            nn.BatchNorm1d(WIDTH),
            nn.ReLU(True),
            nn.Linear(WIDTH, 64),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(64, WIDTH), nn.LeakyReLU(0.2, inplace=True), nn.Linear(WIDTH, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.main(x).view(-1)


pictures = torch.tanh(torch.randn(960, 8) @ torch.randn(8, 64))
dataloader = DataLoader(TensorDataset(pictures), batch_size=32, shuffle=True)
netG, netD = Generator(16), Discriminator()
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=LR, betas=(0.5, 0.999))
optimizerG = optim.Adam(netD.parameters(), lr=LR, betas=(0.5, 0.999))

for epoch in range(8):
    for (real,) in dataloader:
        netD.zero_grad()
        label = torch.full((real.size(0),), 1.0)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), 16))
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
    print(f"[{epoch}] Loss_D {errD_real.item() + errD_fake.item():.3f} Loss_G {errG.item():.3f}")
