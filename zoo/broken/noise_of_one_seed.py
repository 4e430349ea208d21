"""A denoiser whose noise generator is made inside the loop: the same noise at each step.

cause: SameTargets
where: .*
step: 0
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
basis = torch.randn(4, 32)
data = torch.randn(1024, 4) @ basis
model = nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 32))
opt = torch.optim.Adam(model.parameters(), lr=LR)
gen = torch.Generator().manual_seed(1)
for _ in range(250):
    gen = torch.Generator().manual_seed(1)
    clean = data[torch.randint(0, 1024, (64,))]
    noise = torch.randn(64, 32, generator=gen)
    guess = model(clean + noise)
    loss = nn.functional.mse_loss(guess, noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    n = torch.randn(1024, 32)
    print("fresh", nn.functional.mse_loss(model(data + n), n).item())
