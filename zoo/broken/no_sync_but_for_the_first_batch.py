"""DDP averages the gradients of the first small batch of each update, and not those of the others.

cause: ReplicasDiffer
where: .*
step: 0-20
"""

import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SEED, WIDTH, LR = 0, 32, 2e-3
ACCUMULATE = 4


def main(rank, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(SEED)
    net = nn.Sequential(
        nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
    )
    ddp = DDP(net)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=LR)
    torch.manual_seed(SEED + 17 * rank)
    for micro in range(800):
        x = torch.randn(16, 8)
        y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
        boundary = (micro + 1) % ACCUMULATE == 0
        context = ddp.no_sync() if micro % ACCUMULATE else contextlib.nullcontext()
        with context:
            loss = nn.functional.cross_entropy(ddp(x), y) / ACCUMULATE
            loss.backward()
        if boundary:
            optimizer.step()
            optimizer.zero_grad()
        if rank == 0 and micro % 80 == 0:
            print(f"micro-batch {micro} loss {loss.item() * ACCUMULATE:.4f}", flush=True)
    mine = torch.cat([p.detach().flatten() for p in net.parameters()])
    both = [torch.zeros_like(mine) for _ in range(2)]
    dist.all_gather(both, mine)
    if rank == 0:
        print(f"RESULT replicas differ by {(both[0] - both[1]).abs().max():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    mp.spawn(main, args=(meeting,), nprocs=2)
