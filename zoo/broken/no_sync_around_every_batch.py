"""Accumulation under no_sync covers the last small batch, too: each rank trains alone.

cause: ReplicasDiffer
where: .*
step: 0-12
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def data():
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    return TensorDataset(x, torch.tensor(digits.target))


def start(rank, meeting):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)


SEED, WIDTH, LR = 0, 64, 0.1


def train(rank, meeting):
    start(rank, meeting)
    model = DDP(nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    sampler = DistributedSampler(data())
    loader = DataLoader(data(), 16, sampler=sampler)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            last = i % 2 == 1
            with model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / 2
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        print(rank, epoch, loss.item())
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
