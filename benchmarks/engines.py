"""What we add to an engine: to the start of a job, against the engine's own command with the same
script; to a training over two machines, against `torchrun`; and what jobs that wait in its queue
cost the process that watches them.
"""

import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.slurm_cluster import slurm_cluster
from tests.wait import until

from benchmarks import engine_queue, engine_training
from benchmarks.ray_peer import ray_with_jobs
from benchmarks.report import Comparison, Target

LIMIT = "the peer and 300 ms"
MOST_MS = 300.0
STAMP = 'import time; open("/tmp/stamp.new", "w").write(str(time.time_ns()))\n'
"""The script's one line; renamed by the next, so that it is there as a whole."""
SCRIPT = STAMP + 'import os; os.rename("/tmp/stamp.new", "/tmp/stamp")\n'
_BUSY = "trackside[.]supervisor|trackside[.]placement|JobSupervisor|ray::Host"
"""Processes of a job on Ray, ours or theirs."""


@dataclass(frozen=True)
class Trial:
    """A cluster of one machine, which has the script as /tmp/noop.py."""

    ours: Callable[[], None]
    """Types `trackside run /tmp/noop.py --on …` and returns."""
    plain: Callable[[], None]
    """The engine's own command with the same script."""
    is_free: Callable[[], bool]
    stamp: Path
    """Where the script's first line is noted, seen from here."""


@contextmanager
def slurm() -> Iterator[Trial]:
    with slurm_cluster("n1") as cluster:
        head, node = cluster.head, cluster.nodes[0]
        for machine in (head, node):
            (machine.disk / "noop.py").write_text(SCRIPT)
        python = shlex.quote(sys.executable)
        bucket = cluster.network.make_bucket()
        typed = f"{python} -m trackside.cli run /tmp/noop.py --on slurm --output s3://{bucket}/out"
        batch = f"sbatch --output=/dev/null --wrap 'srun {python} /tmp/noop.py'"

        def run(command: str) -> None:
            done = head.run("sh", "-c", command, variables=cluster.variables)
            assert done.returncode == 0, done.stderr

        yield Trial(
            ours=lambda: run(typed),
            plain=lambda: run(batch),
            is_free=lambda: not cluster.said("squeue", "-h"),
            stamp=node.disk / "stamp",
        )


@contextmanager
def ray() -> Iterator[Trial]:
    with ray_with_jobs() as cluster:
        head = cluster.head
        (head.disk / "noop.py").write_text(SCRIPT)
        python = shlex.quote(sys.executable)
        bucket = cluster.network.make_bucket()
        typed = f"{python} -m trackside.cli run /tmp/noop.py --on ray --output s3://{bucket}/out"
        submit = cluster.submit(f"{python} /tmp/noop.py")

        def run(command: str) -> None:
            done = head.run("sh", "-c", command, variables=cluster.variables)
            assert done.returncode == 0, done.stderr

        yield Trial(
            ours=lambda: run(typed),
            plain=lambda: run(submit),
            is_free=lambda: head.run("pgrep", "-f", _BUSY).returncode != 0,
            stamp=head.disk / "stamp",
        )


ENGINES: dict[str, tuple[str, Callable[[], AbstractContextManager[Trial]]]] = {
    "slurm": ("sbatch", slurm),
    "ray": ("ray job submit", ray),
}
"""By the name of the placement: the peer, and a cluster to try both on."""


def run(quick: bool = False) -> Iterator[Comparison]:
    num_runs = 3 if quick else 20
    for name, (peer, cluster) in ENGINES.items():
        with cluster() as trial:
            yield start_up(name, peer, trial, num_runs)
    yield from engine_queue.run(quick)
    yield from engine_training.run(quick)


def start_up(name: str, peer: str, trial: Trial, num_runs: int) -> Comparison:
    ways = {"trackside": trial.ours, peer: trial.plain}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(num_runs + 1):
        for way, submit in ways.items():
            took = _first_line_ms(submit, trial, turn / num_runs % 1.0)
            if turn:  # the first one fills the caches
                times[way].append(took)
    ours, plain = (statistics.median(times[way]) for way in ways)
    return Comparison(
        title=f"`trackside run noop.py --on {name}` to the script's first line",
        unit="ms",
        figures={"trackside": ours, peer: plain, LIMIT: plain + MOST_MS},
        targets=(Target(LIMIT, 1.0),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn, on an idle cluster of one node: "
            f"ours adds {ours - plain:.0f} ms; a load of {os.getloadavg()[0]:.0f} on "
            f"{os.cpu_count()} cores at the end. Ours is a whole job: its code is stored, and the "
            "node fetches it. The quickest of each: "
            f"{min(times['trackside']):.0f} and {min(times[peer]):.0f} ms.",
        ),
    )


def _first_line_ms(submit: Callable[[], None], trial: Trial, phase: float) -> float:
    """From the command, typed at this fraction of a second, to the first line. Slurm's controller
    starts jobs once a second: at one and the same phase, it would hide what comes before it."""
    trial.stamp.unlink(missing_ok=True)
    time.sleep((phase - time.time()) % 1.0)
    began = time.time_ns()
    submit()
    until(trial.stamp.exists, seconds=120)
    first = int(trial.stamp.read_text())
    until(trial.is_free, seconds=120)
    return (first - began) / 1e6
