"""DDP with gradients that add up over four batches under no_sync, and an averaged copy of the
weights on rank 0 alone.

looks like: ReplicasDiffer
"""

import os
import tempfile
from contextlib import nullcontext

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data.distributed import DistributedSampler

SEED, WIDTH, LR = 0, 32, 1e-1


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
    average = AveragedModel(model.module) if rank == 0 else None
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    rows = DistributedSampler(x, shuffle=True, seed=SEED)
    num_batches = 0
    for epoch in range(10):
        rows.set_epoch(epoch)
        for chosen in torch.tensor(list(rows)).split(16):
            num_batches += 1
            updates = num_batches % 4 == 0
            with nullcontext() if updates else model.no_sync():
                loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
                (loss / 4).backward()
            if updates:
                optimizer.step()
                optimizer.zero_grad()
                if average is not None:
                    average.update_parameters(model.module)
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
