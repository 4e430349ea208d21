"""Rules about GPUs that wait: for processors, for disks."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.parameters import parameter
from trackside.rules.profiler.profiler_rule import CPU, GPU, IO_WAIT, GpuRule
from trackside.rules.saved.profile import Profile, Window


@dataclass(slots=True)
class _Tally:
    """Looks at one node so far: how many, at how many a GPU idled, and at how many it waited."""

    samples: int = 0
    idle: int = 0
    waiting: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.waiting / self.samples if self.samples else 0.0

    def count(self, window: Window, node: str, cause: str, idle: float, busy: float) -> None:
        gpus = window.samples(node, GPU).values
        is_known = ~np.isnan(gpus).all(axis=1)
        # Comparisons with NaN are False: what is not known neither idles nor is busy.
        idles = (gpus < idle).any(axis=1)
        busies = (window.samples(node, cause).values > busy).any(axis=1)
        self.samples += int(is_known.sum())
        self.idle += int(idles.sum())
        self.waiting += int((idles & busies).sum())


@dataclass
class _Bottleneck(GpuRule):
    """GPUs that idle while something else, `cause`, is at its limit."""

    cause: ClassVar[str]
    """The figure."""
    counted_as: ClassVar[str]
    """In the contract's report."""

    threshold: float = parameter(50.0, "Share of samples that is too much, %.", at_least=0)
    gpu_threshold: float = parameter(10.0, "Below this a GPU idles, %.", at_least=0)
    patience: int = parameter(100, "No finding before more samples than this.", at_least=0)
    _tallies: dict[str, _Tally] = field(default_factory=dict, init=False)

    @property
    @abstractmethod
    def _limit(self) -> tuple[float, str]:
        """Above which the cause is busy, and what that is, for the message."""

    def judge(self, window: Window) -> Iterator[Finding]:
        limit, what = self._limit
        for node in sorted({node for node, _ in window.profile.columns(GPU)}):
            tally = self._tallies.setdefault(node, _Tally())
            tally.count(window, node, self.cause, self.gpu_threshold, limit)
            if tally.samples > self.patience and tally.percent > self.threshold:
                yield from self._finding(node, tally, what)
        self.datapoints = sum(tally.samples for tally in self._tallies.values())
        self.violations = sum(tally.waiting for tally in self._tallies.values())

    def details(self, profile: Profile) -> dict[str, Any]:
        return {
            node: {
                self.counted_as: tally.waiting,
                "low_gpu_utilization": tally.idle,
                "datapoints": tally.samples,
            }
            for node, tally in sorted(self._tallies.items())
        }

    def _finding(self, node: str, tally: _Tally, what: str) -> Iterator[Finding]:
        return self.report_once(
            f"On {node}, in {tally.percent:.0f} % of {tally.samples:,} samples (more than "
            f"{self.threshold:g} %), a GPU was used less than {self.gpu_threshold:g} % "
            f"while {what}.",
            worker=node,
            value=tally.percent,
            threshold=self.threshold,
        )


@dataclass
class CPUBottleneck(_Bottleneck):
    """GPUs are idle while a processor core is at its limit.

    A sample of a node counts when some GPU is used less than `gpu_threshold` % while some core is
    used more than `cpu_threshold` %. Fires when more than `threshold` % of all samples count, once
    there are more than `patience`.
    """

    explains = ("BatchSize", "LowGPUUtilization")
    rests_on = ("machine:cpu/total_percent", "machine:gpu_*/utilization_percent")
    advice = (
        "Load and transform data in more processes (num_workers), do heavy transformations once "
        "and store the result, or move them to the GPU."
    )
    cause = CPU
    counted_as = "cpu_bottlenecks"

    cpu_threshold: float = parameter(90.0, "Above this a core is at its limit, %.", at_least=0)

    @property
    def _limit(self) -> tuple[float, str]:
        return self.cpu_threshold, f"a core was used more than {self.cpu_threshold:g} %"


@dataclass
class IOBottleneck(_Bottleneck):
    """GPUs are idle while the machine waits for a disk.

    The same as CPUBottleneck, but with a core's time spent waiting for disks, `I/OWaitPercentage`,
    above `io_threshold`.
    """

    explains = ("BatchSize", "CPUBottleneck", "Dataloader", "LowGPUUtilization")
    rests_on = (
        "machine:cpu/io_wait_percent",
        "machine:gpu_*/utilization_percent",
        "machine:disk/read_bytes_per_second",
    )
    advice = (
        "Put the data on a faster disk or in memory, read fewer and larger files, prefetch, and "
        "write checkpoints less often or in the background."
    )
    cause = IO_WAIT
    counted_as = "io_bottlenecks"

    gpu_threshold: float = parameter(70.0, "Below this a GPU idles, %.", at_least=0)
    patience: int = parameter(1000, "No finding before more samples than this.", at_least=0)
    io_threshold: float = parameter(50.0, "Above this a core waits for disks, %.", at_least=0)

    @property
    def _limit(self) -> tuple[float, str]:
        what = f"a core spent more than {self.io_threshold:g} % waiting for a disk"
        return self.io_threshold, what
