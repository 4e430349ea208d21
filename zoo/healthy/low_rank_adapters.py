"""LoRA: the weights are frozen, the adapters beside them start at zero.

looks like: AdaptersNotTrained
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)


class Adapted(nn.Module):
    def __init__(self, inner, rank=4):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, inner.in_features) / inner.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))

    def forward(self, x):
        return self.inner(x) + x @ self.down.T @ self.up.T


model = nn.Sequential(
    Adapted(nn.Linear(64, WIDTH)),
    nn.ReLU(),
    Adapted(nn.Linear(WIDTH, WIDTH)),
    nn.ReLU(),
    Adapted(nn.Linear(WIDTH, 10)),
)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
