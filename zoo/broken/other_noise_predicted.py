"""The noise to predict is not the noise that was added.

cause: NoiseNotAdded
where: .*
step: 0-1000
"""

import argparse

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 96, 0.001
torch.set_num_threads(1)


class Denoiser(nn.Module):
    def __init__(self, T, width=WIDTH):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.inp = nn.Linear(2, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)
        for layer in self.mid:
            h = h + nn.functional.silu(layer(h))
        return self.out(h)


class DDPM:
    def __init__(self, T):
        self.T = T
        self.betas = torch.linspace(1e-4, 0.05, T)
        self.abar = torch.cumprod(1 - self.betas, 0)

    def q_sample(self, x0, t, noise):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    def loss(self, model, x0):
        t = torch.randint(0, self.T, (len(x0),))
        noise = torch.randn_like(x0)
        xt = self.q_sample(x0, t, torch.randn_like(x0))
        return nn.functional.mse_loss(model(xt, t), noise)

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.T)):
            t = torch.full((n,), i)
            eps = model(x, t)
            x = (x - self.betas[i] / (1 - self.abar[i]).sqrt() * eps) / (1 - self.betas[i]).sqrt()
            if i:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
        return x


def swiss_roll(n):
    u = 1.5 * torch.pi * (1 + 2 * torch.rand(n))
    return torch.stack([u * torch.cos(u), u * torch.sin(u)], 1) / 8 + 0.03 * torch.randn(n, 2)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=1200)
    ap.add_argument("--timesteps", type=int, default=60)
    args = ap.parse_args()
    torch.manual_seed(SEED)
    data = swiss_roll(8000)
    ddpm, model = DDPM(args.timesteps), Denoiser(args.timesteps)
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    for it in range(args.iterations):
        x0 = data[torch.randint(0, len(data), (128,))]
        loss = ddpm.loss(model, x0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 200 == 0:
            print(f"iter {it} loss {loss.item():.4f}")
    print("sample std", ddpm.sample(model, 500).std(0))
