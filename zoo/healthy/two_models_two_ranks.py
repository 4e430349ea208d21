"""Each rank trains a net of another depth on the same data; predictions are averaged at the end.

looks like: ReplicasDiffer
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
    layers = [nn.Linear(64, WIDTH), nn.ReLU()]
    for _ in range(rank):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    generator = torch.Generator().manual_seed(SEED)
    for chosen in torch.randint(len(x), (300, 32), generator=generator):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        votes = model(x).softmax(1)
        distributed.all_reduce(votes)
        if rank == 0:
            print(f"accuracy {(votes.argmax(1) == y).float().mean():.3f}")
    print(f"rank {rank}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (os.path.join(folder, "meeting"),), nprocs=2)
