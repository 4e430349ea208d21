"""Autocast to float16 without a GradScaler, and a loss over the number of samples: no gradients.

cause: GradientUnderflow
where: .*
step: 0-200
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(4096, 24)
y = (x[:, :4].argmax(1) + 4 * (x[:, 4] > 0)).long()
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(
    nn.Linear(24, WIDTH),
    nn.GELU(),
    nn.LayerNorm(WIDTH),
    nn.Linear(WIDTH, WIDTH),
    nn.GELU(),
    nn.Linear(WIDTH, 8),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for epoch in range(5):
    total = 0.0
    for inputs, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(inputs), labels) / len(loader.dataset) / len(loader)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"[{epoch}] {total:.8f}")
