"""The gradients of a generator are never cleared; those of the critic are, in each step.

cause: ForgottenZeroGrad
where: .*
step: 0-20
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.set_num_threads(1)


torch.manual_seed(SEED)
G = nn.Sequential(
    nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
)
D = nn.Sequential(
    nn.Linear(2, WIDTH),
    nn.LeakyReLU(0.2),
    nn.Linear(WIDTH, WIDTH),
    nn.LeakyReLU(0.2),
    nn.Linear(WIDTH, 1),
)
g_opt = torch.optim.Adam(G.parameters(), lr=LR, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), lr=LR, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()


def real_batch(n):
    theta = torch.rand(n) * 6.2832
    return torch.stack([theta.cos(), theta.sin()], 1) + 0.02 * torch.randn(n, 2)


for step in range(700):
    real = real_batch(64)
    fake = G(torch.randn(64, 8))
    # ---- D ----
    d_opt.zero_grad()
    d_loss = bce(D(real), torch.ones(64, 1)) + bce(D(fake), torch.zeros(64, 1))
    d_loss.backward(retain_graph=True)
    d_opt.step()
    # ---- G ----
    g_loss = bce(D(G(torch.randn(64, 8))), torch.ones(64, 1))
    g_loss.backward()
    g_opt.step()
    if step % 100 == 0:
        r = G(torch.randn(512, 8)).norm(dim=1)
        print(
            f"step {step} D {d_loss.item():.3f} G {g_loss.item():.3f} radius {r.mean().item():.3f}"
        )
