"""Gradients are averaged by hand, but each rank starts with weights of its own seed.

cause: AveragedRanksDiffer
where: .*
step: 0-8
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn

SEED, WIDTH, LR = 0, 32, 1e-1


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED + rank)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    for chosen in torch.randint(len(x), (300, 32)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        loss.backward()
        for weight in model.parameters():
            distributed.all_reduce(weight.grad)
            weight.grad /= 2
        optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
