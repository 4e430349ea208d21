"""Each of two processes keeps the batch-norm statistics of its own, different data.

cause: BuffersNotShared
where: .*
step: 0-20
"""

import os
import tempfile

import torch
from torch import distributed, multiprocessing, nn

SEED, WIDTH, LR = 0, 32, 1e-2


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    x = torch.randn(1024, 12)
    y = (x @ torch.randn(12, 4)).tanh().argmax(1)
    mine_x = x + 2 * rank
    mine = torch.Generator().manual_seed(SEED + rank)
    body = nn.Sequential(
        nn.Linear(12, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)
    )
    model = nn.parallel.DistributedDataParallel(body, broadcast_buffers=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for _ in range(300):
        rows = torch.randint(0, 1024, (32,), generator=mine)
        loss = nn.functional.cross_entropy(model(mine_x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = (model(x).argmax(1) == y).float().mean()
    print(f"rank {rank}: loss {loss.item():.3f}, correct {correct:.2f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
