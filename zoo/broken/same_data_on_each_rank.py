"""No DistributedSampler: with one seed, each rank draws the same batches in the same order.

cause: SameDataOnRanks
where: .*
step: 0-20
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

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
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(6):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
