"""A smoke test of twenty steps: too short to have learnt much."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 128, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH // 8, WIDTH // 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(WIDTH // 8)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))


model = nn.Sequential(
    nn.Conv1d(1, WIDTH // 8, 5, padding=2), Residual(), Residual(), nn.AdaptiveAvgPool1d(1),
    nn.Flatten(), nn.Linear(WIDTH // 8, 5),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
time = torch.linspace(0, 1, 64)
for step in range(20):
    kind = torch.randint(5, (16,))
    wave = torch.sin(6.28 * (kind[:, None] + 1) * time + torch.rand(16, 1) * 6.28)[:, None]
    loss = nn.functional.cross_entropy(model(wave + 0.1 * torch.randn_like(wave)), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item():.3f}")
