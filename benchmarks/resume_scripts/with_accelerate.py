"""Accelerate keeps the states of all that it has prepared."""

from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
set_seed(6)
x = torch.randn(160, 6)
y = (x.sum(1) > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=40)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
folder = Path("checkpoints")
first_epoch = 0
if written := sorted(folder.glob("epoch-*")):
    accelerator.load_state(str(written[-1]))
    first_epoch = int(written[-1].name.removeprefix("epoch-")) + 1
for epoch in range(first_epoch, 4):
    loader.set_epoch(epoch)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
    accelerator.save_state(str(folder / f"epoch-{epoch}"))
