"""Rank 1 sorts a large table in each step, and rank 0 waits for it.

cause: SlowRank
where: .*
step: 0-40
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

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
    rows = DistributedSampler(x, shuffle=True, seed=SEED)
    for epoch in range(4):
        rows.set_epoch(epoch)
        for chosen in torch.tensor(list(rows)).split(16):
            if rank == 1:
                torch.rand(400_000).sort()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
