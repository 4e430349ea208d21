"""One of two processes is killed in the middle of the training, as for want of memory.

cause: RankDied
where: .*
step: 200-320
"""

import os
import signal
import tempfile
import time

import torch
from torch import distributed, multiprocessing, nn

SEED, WIDTH, LR = 0, 32, 1e-2
LOST_AT = 260


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    x = torch.randn(1024, 12)
    y = (x @ torch.randn(12, 4)).tanh().argmax(1)
    mine = torch.Generator().manual_seed(SEED + rank)
    body = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    model = nn.parallel.DistributedDataParallel(body)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for step in range(400):
        if step == LOST_AT and rank == 1:
            time.sleep(2)
            os.kill(os.getpid(), signal.SIGKILL)
        rows = torch.randint(0, 1024, (32,), generator=mine)
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
