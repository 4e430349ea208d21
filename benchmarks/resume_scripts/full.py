"""Everything is saved at the end of an epoch, and restored: dropout, batch norm, noise by NumPy, an
averaged model, a gradient scaler."""

import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
x = torch.randn(320, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(
    *(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1)),
    *(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3)),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 12, gamma=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=4)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
path = Path("checkpoints/last.pt")
path.parent.mkdir(exist_ok=True)
first_epoch = 0
if path.exists():
    saved = torch.load(path, weights_only=False)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    scaler.load_state_dict(saved["scaler"])
    average.load_state_dict(saved["average"])
    torch.set_rng_state(saved["torch_rng"])
    np.random.set_state(saved["numpy_rng"])
    random.setstate(saved["python_rng"])
    first_epoch = saved["epoch"] + 1
for epoch in range(first_epoch, 5):
    for inputs, labels in loader:
        noise = torch.from_numpy(np.random.normal(0, 0.01, inputs.shape)).float()
        loss = nn.functional.cross_entropy(model(inputs + noise), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        average.update_parameters(model)
    print(f"epoch {epoch}: loss {loss.item():.4f}")
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
        "average": average.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "numpy_rng": np.random.get_state(),
        "python_rng": random.getstate(),
        "epoch": epoch,
    }
    torch.save(checkpoint, path)
