"""A training by DDP over two machines: as a job on Ray, and by `torchrun` typed on each of the same
two. Gloo, a small model, one process on each.

Both are there at once and take turns, some steps each: on a machine whose speed changes by a tenth
from one minute to the next, only what is measured within a second can be compared to 1 %. What our
other processes use runs beside both, and is a figure of its own.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.machines import Machine
from tests.ray_cluster import RayCluster, ray_cluster
from tests.wait import until

from benchmarks.report import Comparison, Target

NODES = ("n1", "n2")
OURS, PEER = "trackside", "torchrun"
BLOCK_STEPS = 20
_WITHIN = 1.01
_PORT, _TURNS_PORT = 29_500, 29_400
_SCRIPT = """
import json, os, socket, time
import torch
from torch import distributed, nn

name = "trackside" if "TRAINING_JOB_NAME" in os.environ else "torchrun"
torch.manual_seed(0)
torch.set_num_threads(1)
distributed.init_process_group("gloo")
is_first = distributed.get_rank() == 0
first, second, last = nn.Linear(256, 512), nn.Linear(512, 512), nn.Linear(512, 10)
net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_of = nn.CrossEntropyLoss()
data, goal = torch.randn(128, 256), torch.randint(0, 10, (128,))
if is_first:
    turns = socket.create_connection(({head!r}, {turns_port}))
    turns.sendall(name[:2].encode())
found = []
for block in range({num_blocks} + 2):
    if is_first:
        turns.recv(1)
    distributed.barrier()
    used, began = time.process_time(), time.perf_counter()
    for step in range({steps}):
        optimizer.zero_grad()
        loss_of(model(data), goal).backward()
        optimizer.step()
    took, used = time.perf_counter() - began, time.process_time() - used
    found.append({{"wall_ms": 1000 * took / {steps}, "cpu_ms": 1000 * used / {steps}}})
    distributed.barrier()
    if is_first:
        turns.sendall(b"d")
if is_first:
    with open("/tmp/new.json", "w") as file:
        json.dump(found[2:], file)
    os.rename("/tmp/new.json", "/tmp/" + name + ".json")
distributed.barrier()
"""
_TURNS = """
import socket, sys

with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    waiting = [server.accept()[0] for _ in range(2)]
waiting.sort(key=lambda each: each.recv(2))
for block in range(int(sys.argv[3])):
    for connection in waiting if block % 2 else waiting[::-1]:
        connection.sendall(b"g")
        connection.recv(1)
"""
"""Which of the two begins changes, too."""


def run(quick: bool = False) -> Iterator[Comparison]:
    return run_with(10 if quick else 300)


def run_with(num_blocks: int) -> Iterator[Comparison]:
    with ray_cluster(*NODES) as cluster:
        for machine in (cluster.head, *cluster.nodes):
            (machine.disk / "train.py").write_text(
                _SCRIPT.format(
                    head=cluster.head.address,
                    turns_port=_TURNS_PORT,
                    num_blocks=num_blocks,
                    steps=BLOCK_STEPS,
                )
            )
        found, share = _trained(cluster, num_blocks)
    for name, what in (("wall_ms", "time of a step"), ("cpu_ms", "processor time of a step")):
        ratios = sorted(
            ours[name] / theirs[name] for ours, theirs in zip(found[OURS], found[PEER], strict=True)
        )
        middle = statistics.median(ratios)
        plain = statistics.median(block[name] for block in found[PEER])
        yield Comparison(
            f"DDP over two machines as a job on Ray: {what}",
            "ms",
            {OURS: plain * middle, PEER: plain},
            targets=(Target(PEER, 1 / _WITHIN),),
            notes=(
                f"The median of the ratios of {num_blocks} pairs of {BLOCK_STEPS} steps each, "
                f"taken in turn: {middle:.4f}, with 95 % certainty within "
                f"{' and '.join(f'{each:.4f}' for each in _range_of_median(ratios))}. Our other "
                f"processes on both machines used {100 * share:.1f} % of a core meanwhile. A load "
                f"of {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores at the end, which the two "
                "machines share.",
            ),
        )


def _range_of_median(ordered: list[float]) -> tuple[float, float]:
    """By the binomial distribution of how many are below it."""
    count = len(ordered)
    away = 0.98 * count**0.5
    low, high = int(count / 2 - away), int(count / 2 + away)
    return ordered[max(0, low)], ordered[min(count - 1, high)]


def _trained(
    cluster: RayCluster, num_blocks: int
) -> tuple[dict[str, list[dict[str, float]]], float]:
    """What each has measured, and the share of a core that our other processes used."""
    head, nodes = cluster.head, cluster.nodes
    bucket = cluster.network.make_bucket()
    words = [head.address, str(_TURNS_PORT), str(num_blocks + 2)]
    turns = head.start(sys.executable, "-c", _TURNS, *words)
    job = head.start("sh", "-c", _typed(bucket), variables=cluster.variables)
    by_hand = _by_hand(nodes)
    places = {name: [node.disk / f"{name}.json" for node in nodes] for name in (OURS, PEER)}
    shares: list[float] = []
    until(lambda: _supervisors(nodes), seconds=120)
    before = _used(nodes)

    def is_over() -> bool:
        if not any(path.exists() for path in (*places[OURS], *places[PEER])):
            shares.append(_share(before, _used(nodes)))
        return all(process.poll() is not None for process in (turns, job, *by_hand))

    until(is_over, seconds=900)
    assert not any(process.returncode for process in (turns, job, *by_hand))
    found = {
        name: json.loads(next(path for path in paths if path.exists()).read_text())
        for name, paths in places.items()
    }
    return found, shares[-1]


def _typed(bucket: str) -> str:
    python = shlex.quote(sys.executable)
    return (
        f"{python} -m trackside.cli run /tmp/train.py --on ray --instances {len(NODES)} "
        f"--distribution torchrun --processes-per-host 1 --python {python} --wait "
        f"--output s3://{bucket}/out >/tmp/job.log 2>&1"
    )


def _by_hand(nodes: list[Machine]) -> list[subprocess.Popen[bytes]]:
    return [
        node.start(
            *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(nodes)}"),
            *(f"--node-rank={rank}", "--nproc-per-node=1", f"--master-port={_PORT}"),
            *(f"--master-addr={nodes[0].address}", "/tmp/train.py"),
            variables={"GLOO_SOCKET_IFNAME": "eth0"},
        )
        for rank, node in enumerate(nodes)
    ]


def _supervisors(nodes: list[Machine]) -> dict[int, float]:
    """The processor time in seconds of our own processes there, by pid; not of the training."""
    spaces = {os.readlink(f"/proc/{node.pid}/ns/pid") for node in nodes}
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            is_ours = b"trackside." in words and b"train.py" not in words
            if is_ours and os.readlink(folder / "ns/pid") in spaces:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
        except OSError:  # it has ended meanwhile
            continue
    return found


_TICKS = os.sysconf("SC_CLK_TCK")


def _used(nodes: list[Machine]) -> tuple[float, dict[int, float]]:
    return time.monotonic(), _supervisors(nodes)


def _share(before: tuple[float, dict[int, float]], now: tuple[float, dict[int, float]]) -> float:
    """Of those that were there all the time, and of new ones since they began."""
    used = sum(seconds - before[1].get(pid, 0.0) for pid, seconds in now[1].items())
    return used / max(now[0] - before[0], 1e-9)
