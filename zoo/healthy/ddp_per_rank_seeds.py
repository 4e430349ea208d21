"""Each rank has a seed of its own, for dropout and noise; DDP gives all the weights of rank 0, and
sends its batch-norm statistics around.

looks like: ReplicasDiffer
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SEED, WIDTH, LR = 0, 32, 1e-2


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED + rank)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    model = nn.Sequential(
        nn.Linear(64, WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(WIDTH, 10),
    )
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    loader = DataLoader(
        TensorDataset(x, y), batch_size=32, sampler=DistributedSampler(x, seed=SEED)
    )
    for epoch in range(8):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if rank == 0:
            model.eval()
            with torch.no_grad():
                right = (model.module(x).argmax(1) == y).float().mean()
            print(f"epoch {epoch}: accuracy {right:.3f}")
            model.train()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
