"""One rank has fewer batches than the other; DDP's join covers the rest.

looks like: UnequalSteps
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

SEED, WIDTH, LR = 0, 32, 1e-2


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    mine = (
        torch.arange(len(x))[: len(x) * 3 // 5]
        if rank == 0
        else torch.arange(len(x) * 3 // 5, len(x))
    )
    generator = torch.Generator().manual_seed(SEED + rank)
    for _ in range(6):
        with model.join():
            for chosen in mine[torch.randperm(len(mine), generator=generator)].split(32):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
                loss.backward()
                optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
