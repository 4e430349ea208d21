"""`hung.py CASE`: trains some steps and then hangs, in one of 20 ways.

A comment `# HERE: CASE, rank N` marks the line at which the process to blame is found, or, if that
is dead, the line at which the others wait for it. Written before the rule that finds hangs. It
imports nothing of Trackside.
"""

import ctypes
import fcntl
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
STEPS = 40
RANK = int(os.environ.get("RANK", "0"))


class Numbers(Dataset):
    """With `blocked`, reading a sample never ends."""

    def __init__(self, blocked=None):
        self.blocked = blocked

    def __len__(self):
        return 400

    def __getitem__(self, index):
        if self.blocked is not None:
            self.blocked.acquire()  # HERE: loader_lock, rank 0
        if CASE == "loader_queue":
            queue.Queue().get()  # HERE: loader_queue, rank 0
        return torch.randn(8), torch.randn(1)


def train(model, batches, after=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        time.sleep(0.02)
        after(step)


def random_batches(num=100_000):
    for _ in range(num):
        yield torch.randn(4, 8), torch.randn(4, 1)


def at(step, act):
    return lambda now: act() if now == step else None


def network():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


def alone(act):
    train(network(), random_batches(), at(STEPS, lambda: (begins(), act())))


def together(act, batches=None):
    dist.init_process_group("gloo", timeout=timedelta(seconds=1800))
    model = DistributedDataParallel(network())
    train(model, batches or random_batches(), at(STEPS, lambda: (begins(), act())))


def begins():
    print("HANG", time.time(), flush=True)


# Several processes


def skipped_barrier():
    if RANK == 0:
        dist.barrier()
    else:
        queue.Queue().get()  # HERE: skipped_barrier, rank 1


def uneven_batches():
    together(lambda: None, random_batches(50 if RANK == 1 else 100))
    if RANK == 1:
        begins()
        threading.Event().wait()  # HERE: uneven_batches, rank 1


def save_checkpoint():
    with open(os.devnull, "wb") as file:
        file.write(b"x")
        time.sleep(1e6)  # HERE: saving_rank, rank 1


def saving_rank():
    if RANK == 1:
        save_checkpoint()
    else:
        dist.all_reduce(torch.ones(1))


def order_differs():
    if RANK == 0:
        dist.broadcast(torch.ones(4), src=0)
        dist.recv(torch.ones(4), src=1)  # HERE: order_differs, rank 0
    else:
        dist.broadcast(torch.ones(4), src=0)
        dist.all_reduce(torch.ones(4))  # HERE: order_differs, rank 1


def both_receive():
    dist.recv(torch.ones(4), src=1 - RANK)  # HERE: both_receive, rank 0


def store_key():
    store = dist.distributed_c10d._get_default_store()
    if RANK == 0:
        store.wait(["never"], timedelta(seconds=1800))  # HERE: store_key, rank 0
    else:
        dist.all_reduce(torch.ones(1))


def group_of_one():
    if RANK == 0:
        dist.new_group([0, 1])
    else:
        threading.Event().wait()  # HERE: group_of_one, rank 1


def file_lock():
    path = Path(tempfile.gettempdir()) / f"lock-{os.environ['MASTER_PORT']}"
    with path.open("w") as file:
        if RANK == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
            dist.all_reduce(torch.ones(1))
        else:
            time.sleep(1)
            fcntl.flock(file, fcntl.LOCK_EX)  # HERE: file_lock, rank 1


def endless_loop():
    is_done = False
    if RANK == 1:
        while not is_done:  # HERE: endless_loop, rank 1
            pass
    dist.all_reduce(torch.ones(1))


def dead_rank():
    """The launcher restarts nothing, and the others wait for a value of the dead one."""
    if RANK == 1:
        os._exit(0)
    store = dist.distributed_c10d._get_default_store()
    store.wait(["from the other"], timedelta(seconds=1800))  # HERE: dead_rank, rank 1


# One process


def loader(workers, lock=None):
    def batches():
        yield from random_batches(STEPS)
        begins()
        yield from DataLoader(Numbers(lock), batch_size=4, num_workers=workers)

    train(network(), batches())


def loader_lock():
    lock = torch.multiprocessing.Lock()
    lock.acquire()
    loader(1, lock)


def loader_queue():
    loader(2)


def lock_twice():
    lock = threading.Lock()
    with lock:
        lock.acquire()  # HERE: lock_twice, rank 0


def dead_producer():
    items = queue.Queue(2)
    thread = threading.Thread(target=lambda: items.put(1))
    thread.start()
    thread.join()
    items.get()
    items.get()  # HERE: dead_producer, rank 0


def full_pipe():
    text = "print('x' * 1000000)"
    child = subprocess.Popen([sys.executable, "-S", "-c", text], stdout=subprocess.PIPE)
    child.wait()  # HERE: full_pipe, rank 0


def fifo():
    path = Path(tempfile.mkdtemp()) / "pipe"
    os.mkfifo(path)
    with path.open() as file:  # HERE: fifo, rank 0
        file.read()


def silent_server():
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    client.recv(100)  # HERE: silent_server, rank 0


def file_that_never_comes():
    while not os.path.exists("/tmp/this-file-never-comes"):
        time.sleep(0.5)  # HERE: file_that_never_comes, rank 0


def lock_of_interpreter():
    ctypes.PyDLL(None).pause()  # HERE: lock_of_interpreter, rank 0


def before_first_step():
    network()
    begins()
    threading.Event().wait()  # HERE: before_first_step, rank 0


GROUPS = {
    case.__name__: case
    for case in (
        *(skipped_barrier, saving_rank, order_differs, both_receive, store_key),
        *(group_of_one, file_lock, endless_loop, dead_rank),
    )
}
SINGLES = {
    case.__name__: case
    for case in (
        *(lock_twice, dead_producer, full_pipe, fifo, silent_server),
        *(file_that_never_comes, lock_of_interpreter),
    )
}
OTHERS = {
    case.__name__: case for case in (uneven_batches, loader_lock, loader_queue, before_first_step)
}
DISTRIBUTED = (*GROUPS, "uneven_batches")

if __name__ == "__main__":
    CASE = sys.argv[1]
    if CASE in GROUPS:
        together(GROUPS[CASE])
    elif CASE in SINGLES:
        alone(SINGLES[CASE])
    else:
        OTHERS[CASE]()
