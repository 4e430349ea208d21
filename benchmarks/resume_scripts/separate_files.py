"""Weights by safetensors, the rest in a file of its own; written under another name and renamed."""

import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)
x = torch.randn(256, 6)
y = (x.sum(1) > 0).float()[:, None]
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
folder = Path("checkpoints")
folder.mkdir(exist_ok=True)
step = 0
if (folder / "state.pt").exists():
    model.load_state_dict(load_file(folder / "model.safetensors"))
    state = torch.load(folder / "state.pt")
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    step = state["step"]
while step < 40:
    rows = torch.randint(0, 256, (32,))
    loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    step += 1
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
        save_file(model.state_dict(), folder / "model.tmp")
        state = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
        torch.save(state | {"rng": torch.get_rng_state(), "step": step}, folder / "state.tmp")
        os.replace(folder / "model.tmp", folder / "model.safetensors")
        os.replace(folder / "state.tmp", folder / "state.pt")
