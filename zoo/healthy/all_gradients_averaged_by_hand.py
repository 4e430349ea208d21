"""Ranks average all gradients by hand, without DDP.

looks like: AveragedRanksDiffer
"""

import socket
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 32, 3e-3
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.ln(x))))


def average_gradients(model, world):
    for p in model.parameters():
        if p.grad is None:
            continue
        dist.all_reduce(p.grad)
        p.grad /= world


def main(rank, world, port):
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world
    )
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(12, WIDTH), Block(WIDTH), Block(WIDTH), nn.Linear(WIDTH, 4))
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    gen = torch.Generator().manual_seed(1000 + rank)
    for it in range(200):
        x = torch.randn(32, 12, generator=gen)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] * x[:, 2] > 0).long()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        if rank == 0 and it % 40 == 0:
            print("it", it, "loss", float(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    procs = []
    ctx = mp.get_context("spawn")
    for r in range(2):
        p = ctx.Process(target=main, args=(r, 2, port))
        p.start()
        procs.append(p)
    for p in procs:
        p.join()
    sys.exit(max(p.exitcode for p in procs))
