"""Tensor parallelism by hand: both ranks see the same data, and each holds half of the hidden
layer, in shapes that are equal.

looks like: SameDataOnRanks, AveragedRanksDiffer
"""

import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import distributed, multiprocessing, nn

SEED, WIDTH, LR = 0, 32, 1e-2


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, partial):
            total = partial.clone()
            distributed.all_reduce(total)
            return total

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    wide, narrow = nn.Linear(64, WIDTH), nn.Linear(WIDTH, 10, bias=False)
    torch.manual_seed(SEED + 7 * rank)
    for layer in (wide, narrow):
        nn.init.xavier_uniform_(layer.weight)
    model = nn.Sequential(wide, nn.ReLU(), narrow)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    generator = torch.Generator().manual_seed(SEED)
    for chosen in torch.randint(len(x), (300, 32), generator=generator):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(Summed.apply(model(x[chosen])), y[chosen])
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
