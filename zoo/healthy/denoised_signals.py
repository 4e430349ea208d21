"""A denoising autoencoder of Conv1d for signals, with an output of tanh for targets in [-1, 1].

looks like: OutputRangeTooNarrow
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(1, WIDTH, 9, stride=2, padding=4), nn.LeakyReLU(0.1),
            nn.Conv1d(WIDTH, 2 * WIDTH, 9, stride=2, padding=4), nn.LeakyReLU(0.1),
        )  # fmt: skip
        self.up = nn.Sequential(
            nn.ConvTranspose1d(2 * WIDTH, WIDTH, 4, stride=2, padding=1), nn.LeakyReLU(0.1),
            nn.ConvTranspose1d(WIDTH, 1, 4, stride=2, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x):
        return self.up(self.down(x))


def clean_signals(size=32):
    t = torch.linspace(0, 1, 64)
    f, p = torch.randint(1, 6, (size, 1)), 6.283 * torch.rand(size, 1)
    return (0.9 * torch.sin(6.283 * f * t + p))[:, None]


net = Denoiser()
opt = torch.optim.Adam(net.parameters(), lr=LR)
mse = nn.MSELoss()
step, best = 0, float("inf")
while step < 250:
    clean = clean_signals()
    noisy = clean + 0.5 * torch.randn_like(clean)
    opt.zero_grad(set_to_none=True)
    loss = mse(net(noisy), clean)
    loss.backward()
    opt.step()
    best = min(best, loss.item())
    step += 1
    if step % 50 == 0:
        print(f"{step:4d} {loss.item():.4f} best {best:.4f}")
