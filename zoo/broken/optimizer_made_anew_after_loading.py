"""The optimizer is made anew after its state was loaded, so Adam begins without its moments.

cause: StateNotRestored
where: .*
step: 299
"""

import os
import tempfile

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 48, 4e-3
folder = os.environ.get("SM_CHECKPOINT_DIR") or tempfile.mkdtemp()
path = os.path.join(folder, "state.pt")


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
        lr=LR,
        betas=(0.9, 0.999),
    )


def run(upto, resume):
    torch.manual_seed(SEED if not resume else SEED + 1)
    model = nn.Sequential(
        nn.Linear(12, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1)
    )
    optimizer = make_optimizer(model)
    first = 0
    if resume:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        model = model.to("cpu").float()
        optimizer = make_optimizer(model)  # parameters may have moved
        print(
            f"resumed at step {first}, optimizer has state of {len(optimizer.state)} parameters",
            flush=True,
        )
    for step in range(first, upto):
        x = torch.randn(64, 12)
        y = torch.sin(2 * x[:, :1]) * x[:, 1:2] + x[:, 2:3]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": upto}, path
    )
    return loss.item(), int(next(iter(optimizer.state.values()))["step"])


run(300, False)
final, steps = run(600, True)
print(f"RESULT loss {final:.4f}, optimizer counts {steps} steps of 600")
