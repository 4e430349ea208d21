"""A character-level language model; run as: python train.py config/train_tiny.py --max_iters=20"""

import os
import time

import torch
from torch import nn

# default config values, to be overridden by configurator.py
out_dir = "out"
eval_interval = 2000
log_interval = 1
init_from = "scratch"  # 'scratch' or 'resume'
wandb_log = False
wandb_project = "owt"
wandb_run_name = "gpt2"
batch_size = 8
block_size = 16
n_embd = 64
learning_rate = 1e-2
max_iters = 20
config_keys = [
    k for k, v in globals().items() if not k.startswith("_") and isinstance(v, int | float | str)
]
exec(open("configurator.py").read())
config = {k: globals()[k] for k in config_keys}

os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
text = "to be, or not to be: that is the question. " * 50
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    return (
        torch.stack([data[i : i + block_size] for i in ix]),
        torch.stack([data[i + 1 : i + 1 + block_size] for i in ix]),
    )


model = nn.Sequential(nn.Embedding(len(chars), n_embd), nn.ReLU(), nn.Linear(n_embd, len(chars)))
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
iter_num, best_val_loss = 0, 1e9
if init_from == "resume":
    print(f"Resuming training from {out_dir}")
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num, best_val_loss = checkpoint["iter_num"], checkpoint["best_val_loss"]


def loss_of(x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def estimate_loss():
    return {
        split: sum(loss_of(*get_batch()).item() for _ in range(4)) / 4 for split in ("train", "val")
    }


if wandb_log:
    import wandb

    wandb.init(project=wandb_project, name=wandb_run_name, config=config)

t0 = time.time()
while True:
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if wandb_log:
            wandb.log(
                {
                    "iter": iter_num,
                    "train/loss": losses["train"],
                    "val/loss": losses["val"],
                    "lr": learning_rate,
                }
            )
        if losses["val"] < best_val_loss and iter_num > 0:
            best_val_loss = losses["val"]
            checkpoint = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "iter_num": iter_num,
                "best_val_loss": best_val_loss,
                "config": config,
            }
            print(f"saving checkpoint to {out_dir}")
            torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    loss = loss_of(*get_batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    dt, t0 = time.time() - t0, time.time()
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {dt * 1000:.2f}ms, mfu -100.00%")
    iter_num += 1
    if iter_num > max_iters:
        break
