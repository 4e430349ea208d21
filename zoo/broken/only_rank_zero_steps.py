"""Only rank 0 makes optimizer steps; the others are thought to get the weights from it.

cause: ReplicasDiffer, UnequalSteps
where: .*
step: 0-3
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
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
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    rows = DistributedSampler(x, shuffle=True, seed=SEED)
    for epoch in range(6):
        rows.set_epoch(epoch)
        for chosen in torch.tensor(list(rows)).split(32):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
            loss.backward()
            if rank == 0:
                optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
