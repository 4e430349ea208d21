"""What the figures and weight hashes of every rank cost: processor time of the calls that record
them over that of the training steps they belong to, in one run.

Both are measured by the clock of the training thread, so that other work on the machine decides
nothing, and after the first steps, which are all sampled. Intervals are chosen by wall time.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Comparison, Target
from benchmarks.workloads import WORKLOADS, Training
from trackside.capture.failures import Failures
from trackside.capture.model.names import Names
from trackside.capture.steps.rank_figures import RankFigures
from trackside.capture.steps.watched import WatchedModel

LIMIT = 0.005
"""Of the step time."""
WARM_UP = 16
STEPS = {"small CNN": 2_000, "ResNet-18": 300, "GPT 10 M": 150}


def run(quick: bool) -> Iterator[Comparison]:
    for workload in WORKLOADS:
        yield _measure(workload, STEPS[workload] // (10 if quick else 1))


class _Costs:
    """Sums the processor time of some calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def counted(self, call: Callable[..., None]) -> Callable[..., None]:
        def counting(*args: Any, **kwargs: Any) -> None:
            began = time.thread_time()
            call(*args, **kwargs)
            self.seconds += time.thread_time() - began

        return counting


def _measure(workload: str, num_steps: int) -> Comparison:
    torch.set_num_threads(1)
    training, costs = Training(workload), _Costs()
    watched = WatchedModel(training.model, Names(training.model))
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        figures = RankFigures(Failures(Path(folder)), lambda: [watched])
        for name in ("begin", "see_loss", "_before_update", "_after_update"):
            setattr(figures, name, costs.counted(getattr(figures, name)))
        figures.install()
        given = ((training.inputs,), {})
        for number in range(WARM_UP + num_steps):
            if number == WARM_UP:
                costs.seconds, began = 0.0, time.thread_time()
            figures.begin(training.model, given, number, True)
            _step(training, figures.see_loss)
        total = time.thread_time() - began
        figures.close()
    checks = sorted(check for check, *_ in figures.to_json()["checks"])
    return Comparison(
        f"Figures and hashes of a rank, {workload}, {num_steps:,} steps",
        "share of the step's processor time",
        {"trackside": costs.seconds / (total - costs.seconds), "allowed": LIMIT},
        targets=(Target("allowed", 1.0),),
        notes=(
            f"{total / num_steps * 1e3:.3g} ms per step; {len(checks)} checks of the weights, the "
            f"last ones at {', '.join(map(str, checks[-3:]))}.",
        ),
    )


def _step(training: Training, see_loss: Callable[..., None]) -> None:
    training.optimizer.zero_grad()
    loss = training.criterion(training.model(training.inputs), training.targets)
    see_loss(loss)
    loss.backward()
    training.optimizer.step()
