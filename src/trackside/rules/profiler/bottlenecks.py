"""Rules about GPUs that wait: for processors, for disks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trackside.finding import Finding
from trackside.rules.parameters import parameter
from trackside.rules.profiler.profiler_rule import CPU, GPU, IO_WAIT, NO_GPU, ProfilerRule
from trackside.rules.saved.profile import Profile, Window


@dataclass(slots=True)
class _Tally:
    """Looks at one node so far: how many, at how many a GPU idled, and at how many it waited."""

    looks: int = 0
    idle: int = 0
    waiting: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.waiting / self.looks if self.looks else 0.0

    def count(self, window: Window, node: str, cause: str, idle: float, busy: float) -> None:
        gpus = window.samples(node, GPU).values
        told = ~np.isnan(gpus).all(axis=1)
        # Comparisons with NaN are False: what was not told neither idles nor is busy.
        idles = (gpus < idle).any(axis=1)
        busies = (window.samples(node, cause).values > busy).any(axis=1)
        self.looks += int(told.sum())
        self.idle += int(idles.sum())
        self.waiting += int((idles & busies).sum())


@dataclass
class CPUBottleneck(ProfilerRule):
    """GPUs idle while a processor is at its limit.

    A look at a node counts when some GPU is used less than `gpu_threshold` % while some core is
    used more than `cpu_threshold` %. Fires when more than `threshold` % of all looks count, once
    there are more than `patience`.
    """

    advice = (
        "Load and transform data in more processes (num_workers), do heavy transformations once "
        "and store the result, or move them to the GPU."
    )

    threshold: float = parameter(50.0, "Share of looks that is too much, %.", at_least=0)
    gpu_threshold: float = parameter(10.0, "Below this a GPU idles, %.", at_least=0)
    cpu_threshold: float = parameter(90.0, "Above this a core is at its limit, %.", at_least=0)
    patience: int = parameter(100, "No finding before more looks than this.", at_least=0)
    _tallies: dict[str, _Tally] = field(default_factory=dict, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        what = f"a core was used more than {self.cpu_threshold:g} %"
        yield from _judge(self, self._tallies, window, CPU, self.cpu_threshold, what)

    def missing(self, profile: Profile) -> str:
        return "" if profile.columns(GPU) else NO_GPU

    def details(self, profile: Profile) -> dict[str, Any]:
        return _shares(self._tallies, "cpu_bottlenecks")


@dataclass
class IOBottleneck(ProfilerRule):
    """GPUs idle while the machine waits for a disk.

    As CPUBottleneck, with a core's time spent waiting for disks, `I/OWaitPercentage`, above
    `io_threshold`.
    """

    advice = (
        "Put the data on a faster disk or in memory, read fewer and larger files, prefetch, and "
        "write checkpoints less often or in the background."
    )

    threshold: float = parameter(50.0, "Share of looks that is too much, %.", at_least=0)
    gpu_threshold: float = parameter(70.0, "Below this a GPU idles, %.", at_least=0)
    io_threshold: float = parameter(50.0, "Above this a core waits for disks, %.", at_least=0)
    patience: int = parameter(1000, "No finding before more looks than this.", at_least=0)
    _tallies: dict[str, _Tally] = field(default_factory=dict, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        what = f"a core spent more than {self.io_threshold:g} % waiting for a disk"
        yield from _judge(self, self._tallies, window, IO_WAIT, self.io_threshold, what)

    def missing(self, profile: Profile) -> str:
        return "" if profile.columns(GPU) else NO_GPU

    def details(self, profile: Profile) -> dict[str, Any]:
        return _shares(self._tallies, "io_bottlenecks")


def _judge(
    rule: CPUBottleneck | IOBottleneck,
    tallies: dict[str, _Tally],
    window: Window,
    cause: str,
    limit: float,
    what: str,
) -> Iterator[Finding]:
    for node in sorted({node for node, _ in window.profile.columns(GPU)}):
        tally = tallies.setdefault(node, _Tally())
        tally.count(window, node, cause, rule.gpu_threshold, limit)
        if tally.looks > rule.patience and tally.percent > rule.threshold:
            finding = Finding(
                rule=rule.name(),
                worker=node,
                value=tally.percent,
                threshold=rule.threshold,
                message=(
                    f"On {node}, in {tally.percent:.0f} % of {tally.looks:,} looks (more than "
                    f"{rule.threshold:g} %), a GPU was used less than {rule.gpu_threshold:g} % "
                    f"while {what}."
                ),
                advice=rule.advice,
            )
            yield from rule.tell(node, finding)
    rule.datapoints = sum(tally.looks for tally in tallies.values())
    rule.violations = sum(tally.waiting for tally in tallies.values())


def _shares(tallies: dict[str, _Tally], name: str) -> dict[str, Any]:
    return {
        node: {name: tally.waiting, "low_gpu_utilization": tally.idle, "datapoints": tally.looks}
        for node, tally in sorted(tallies.items())
    }
