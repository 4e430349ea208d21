"""`trackside.log` in a training loop, against TensorBoard's writer: what a point costs."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.report import Comparison, Target

PEER = "torch SummaryWriter"
NUM_TAGS = 4


def run(quick: bool) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as scratch:
        os.environ["TRACKSIDE_HOME"] = f"{scratch}/home"
        return [*logging(Path(scratch), num_steps=5_000 if quick else 50_000)]


def logging(root: Path, num_steps: int) -> list[Comparison]:
    """The same points by both; a run's supervisor works beside it, as in life."""
    from torch.utils.tensorboard import SummaryWriter

    import trackside

    names = [f"train/metric_{number}" for number in range(NUM_TAGS)]
    writer = SummaryWriter(str(root / "torch"))

    def by_torch(step: int) -> None:
        for name in names:
            writer.add_scalar(name, 0.5, step)

    def by_trackside(step: int) -> None:
        trackside.log(dict.fromkeys(names, 0.5), step)

    caller, cpu = {}, {}
    caller[PEER], cpu[PEER] = _per_point(by_torch, num_steps // 5, writer.close)
    trackside.init("bench", console=False)
    caller["trackside"], cpu["trackside"] = _per_point(by_trackside, num_steps, trackside.finish)
    return [
        Comparison("Time in the caller for a point", "µs", caller, targets=(Target(PEER, 5.0),)),
        Comparison("CPU of the process for a point", "µs", cpu, targets=(Target(PEER, 2.0),)),
    ]


def _per_point(
    log: Callable[[int], None], num_steps: int, close: Callable[[], None]
) -> tuple[float, float]:
    """Microseconds of wall clock and of processor time, the writing thread's included."""
    began, cpu_began = perf_counter(), process_time()
    for step in range(num_steps):
        log(step)
    wall = perf_counter() - began
    close()
    points = num_steps * NUM_TAGS
    return wall / points * 1e6, (process_time() - cpu_began) / points * 1e6
