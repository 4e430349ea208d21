"""Rules about how well GPUs are used."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from itertools import combinations
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.parameters import parameter
from trackside.rules.profiler.profiler_rule import CPU, GPU, GPU_MEMORY, GpuRule
from trackside.rules.profiler.summaries import box, percentile
from trackside.rules.saved.profile import Profile, Window, mean_of_columns

BIN_PERCENT = 2
"""Of the histograms that LoadBalancing compares."""

Gpu = tuple[str, str]
"""Node and name: ("algo-1", "gpu0")."""


@dataclass
class LowGPUUtilization(GpuRule):
    """A GPU is hardly used, or alternates between busy and idle.

    Checks the last `window` values of each GPU, once there are more than `patience`. Fires when
    their 95th percentile is below `threshold_p95` (under-used), or when it is above that and the
    5th percentile is below `threshold_p5` (fluctuating).
    """

    rests_on = ("machine:gpu_*/utilization_percent", "machine:cpu/total_percent", "between_seconds")
    advice = (
        "Under-used: raise the batch size, or use fewer or smaller GPUs. Fluctuating: the GPU "
        "waits; load data in more processes (num_workers), prefetch and pin it, and take work "
        "such as logging and checkpoints out of the training loop."
    )

    threshold_p95: float = parameter(
        70.0, "95th percentile of the use, %, below which a GPU is under-used.", at_least=0
    )
    threshold_p5: float = parameter(
        10.0, "5th percentile of the use, %, below which a busy GPU fluctuates.", at_least=0
    )
    window: int = parameter(500, "Number of last values that are judged.", at_least=1)
    patience: int = parameter(1000, "No finding before more values than this.", at_least=0)
    _seen: Counter[Gpu] = field(default_factory=Counter, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        for node, gpu in window.profile.columns(GPU):
            new = len(window.samples(node, GPU).column(gpu))
            self._seen[node, gpu] += new
            self.datapoints += new
            last = window.latest(node, GPU, self.window).column(gpu)
            if self._seen[node, gpu] > self.patience and len(last):
                yield from self._judge(node, gpu, last)

    def _judge(self, node: str, gpu: str, last: Array) -> Iterator[Finding]:
        p5, p95 = percentile(last, 5), percentile(last, 95)
        if p95 < self.threshold_p95:
            what, value, threshold = "under-used", p95, self.threshold_p95
            said = f"95 % of the time it is busy at most {p95:.0f} %, below {threshold:g} %."
        elif p95 > self.threshold_p95 and p5 < self.threshold_p5:
            what, value, threshold = "fluctuating", p5, self.threshold_p5
            said = (
                f"It goes up to {p95:.0f} % and, 5 % of the time, down to {p5:.0f} % or less, "
                f"below {threshold:g} %."
            )
        else:
            return
        self.violations += 1
        yield from self.report_once(
            f"{gpu} of {node} is {what}. {said}",
            worker=node,
            tensor=gpu,
            subject=what,
            value=value,
            threshold=threshold,
        )

    def details(self, profile: Profile) -> dict[str, Any]:
        return _boxes(profile, GPU)


@dataclass
class BatchSize(GpuRule):
    """The batch is so small that processors, GPUs and GPU memory are hardly used.

    Checks the last `window` values of a node, once it has more than `patience` and `window`. Fires
    when the 95th percentile of the mean use of its processors is below `cpu_threshold_p95`, and for
    some GPU the 95th percentiles of use and memory are below `gpu_threshold_p95` and
    `gpu_memory_threshold_p95`.
    """

    explains = ("LowGPUUtilization",)
    rests_on = (
        "batch_size",
        "machine:gpu_*/utilization_percent",
        "machine:gpu_*/memory_percent",
        "machine:cpu/total_percent",
    )
    advice = "Raise the batch size, or use a smaller machine: this one has free capacity."

    cpu_threshold_p95: float = parameter(70.0, "95th percentile of processor use, %.", at_least=0)
    gpu_threshold_p95: float = parameter(70.0, "95th percentile of GPU use, %.", at_least=0)
    gpu_memory_threshold_p95: float = parameter(
        70.0, "95th percentile of GPU memory, %.", at_least=0
    )
    patience: int = parameter(100, "No finding before more values than this.", at_least=0)
    window: int = parameter(500, "Number of last values that are judged.", at_least=1)
    _seen: Counter[str] = field(default_factory=Counter, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        for node in sorted({node for node, _ in window.profile.columns(GPU)}):
            new = len(window.samples(node, GPU))
            self._seen[node] += new
            self.datapoints += new
            if self._seen[node] > max(self.patience, self.window):
                yield from self._judge(window, node)

    def _judge(self, window: Window, node: str) -> Iterator[Finding]:
        cores = mean_of_columns(window.latest(node, CPU, self.window).values)
        cpu = percentile(cores[~np.isnan(cores)], 95)
        if not cpu < self.cpu_threshold_p95:
            return
        use, memory = (window.latest(node, each, self.window) for each in (GPU, GPU_MEMORY))
        for gpu in use.names:
            busy, filled = percentile(use.column(gpu), 95), percentile(memory.column(gpu), 95)
            if busy < self.gpu_threshold_p95 and filled < self.gpu_memory_threshold_p95:
                self.violations += 1
                yield from self.report_once(
                    f"On {node}, 95 % of the time, {gpu} is busy at most {busy:.0f} %, its "
                    f"memory is filled to {filled:.0f} % and the processors are busy "
                    f"{cpu:.0f} %: all below {self.gpu_threshold_p95:g}, "
                    f"{self.gpu_memory_threshold_p95:g} and {self.cpu_threshold_p95:g} %.",
                    worker=node,
                    tensor=gpu,
                    value=busy,
                    threshold=self.gpu_threshold_p95,
                )

    def details(self, profile: Profile) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for dimension, key in ((CPU, "cpu"), (GPU, "gpu"), (GPU_MEMORY, "gpu_memory")):
            for node, boxes in _boxes(profile, dimension).items():
                found.setdefault(node, {})[key] = boxes
        return found


@dataclass
class GPUMemoryIncrease(GpuRule):
    """A GPU's memory fills up: a leak, or a step that needs much more than the others.

    Fires when the mean of the last `window` values is more than `increase` percentage points above
    the mean of the `window` values before them, at any value after the first `patience`.
    """

    rests_on = ("machine:gpu_*/memory_percent",)
    advice = (
        "Keep no tensors that hold a graph (append loss.item(), not loss), free what evaluation "
        "allocates, and look for batches of uneven size. Soon the job may run out of memory."
    )
    dimension = GPU_MEMORY

    increase: float = parameter(10.0, "Rise that is too much, percentage points.", at_least=0)
    patience: int = parameter(100, "No finding before more values than this.", at_least=0)
    window: int = parameter(500, "Number of values per mean.", at_least=1)
    _recent: dict[Gpu, Array] = field(default_factory=dict, init=False)
    _seen: Counter[Gpu] = field(default_factory=Counter, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        for node, gpu in window.profile.columns(GPU_MEMORY):
            new = window.samples(node, GPU_MEMORY).column(gpu).astype(np.float64)
            rises = self._rises(node, gpu, new)
            self.datapoints += len(new)
            above = rises > self.increase
            if above.any():
                self.violations += int(above.sum())
                rise = float(rises[above][0])
                yield from self.report_once(
                    f"The memory of {gpu} on {node} rose by {rise:.1f} percentage points from one "
                    f"{self.window} figures to the next, more than {self.increase:g}; "
                    f"it is filled to {new[-1]:.0f} % now.",
                    worker=node,
                    tensor=gpu,
                    value=rise,
                    threshold=self.increase,
                )

    def _rises(self, node: str, gpu: str, new: Array) -> Array:
        """For each new figure that has two whole windows behind it and is beyond the patience."""
        kept = self._recent.get((node, gpu), np.empty(0))
        values = np.concatenate([kept, new])
        first = self._seen[node, gpu] - len(kept)
        self._seen[node, gpu] += len(new)
        self._recent[node, gpu] = values[-(2 * self.window - 1) :]
        sums = np.cumsum(np.concatenate([[0.0], values]))
        means = (sums[self.window :] - sums[: -self.window]) / self.window
        rises: Array = means[self.window :] - means[: -self.window]
        counts = first + 2 * self.window + np.arange(len(rises))
        return rises[counts > self.patience]

    def details(self, profile: Profile) -> dict[str, Any]:
        return _boxes(profile, GPU_MEMORY)


@dataclass
class LoadBalancing(GpuRule):
    """The GPUs of a node do not share the work evenly.

    Computes a histogram of each GPU's use in bins of 2 % and compares them pair by pair. Fires when
    a Jensen-Shannon distance (natural logarithm: from 0 for equal to 0.83 for disjoint) is above
    `threshold`, once each GPU has more than `patience` values.
    """

    rests_on = ("machine:gpu_*/utilization_percent",)
    advice = (
        "Give each GPU the same share of the batch, keep gathering and logging off the first one, "
        "and use DistributedDataParallel instead of DataParallel."
    )

    threshold: float = parameter(0.5, "Distance that is too large.", at_least=0, at_most=1)
    patience: int = parameter(1000, "No finding before more values than this.", at_least=0)
    _counts: dict[Gpu, Array] = field(default_factory=dict, init=False)

    def judge(self, window: Window) -> Iterator[Finding]:
        edges = np.arange(0, 100 + BIN_PERCENT, BIN_PERCENT)
        gpus: dict[str, list[str]] = {}
        for node, gpu in window.profile.columns(GPU):
            new = window.samples(node, GPU).column(gpu)
            counts = np.histogram(np.clip(new, 0, 100), edges)[0]
            self._counts[node, gpu] = self._counts.get((node, gpu), 0) + counts
            self.datapoints += len(new)
            if self._counts[node, gpu].sum() > self.patience:
                gpus.setdefault(node, []).append(gpu)
        for node, names in gpus.items():
            for pair in combinations(names, 2):
                yield from self._compare(node, *pair)

    def _compare(self, node: str, one: str, other: str) -> Iterator[Finding]:
        first, second = self._counts[node, one], self._counts[node, other]
        distance = jensen_shannon(first, second)
        if not distance > self.threshold:
            return
        self.violations += 1
        middles = np.arange(len(first)) * BIN_PERCENT + BIN_PERCENT / 2
        means = [float(counts @ middles / counts.sum()) for counts in (first, second)]
        yield from self.report_once(
            f"{one} and {other} of {node} are used differently: on the mean {means[0]:.0f} % "
            f"and {means[1]:.0f} %, their histograms' distance is {distance:.2f}, "
            f"above {self.threshold:g}.",
            worker=node,
            tensor=f"{one}, {other}",
            value=distance,
            threshold=self.threshold,
        )

    def missing(self, profile: Profile) -> str:
        gpus = Counter(node for node, _ in profile.columns(GPU))
        if max(gpus.values(), default=0) == 1:
            return "No node has two GPUs to compare."
        return super().missing(profile)

    def details(self, profile: Profile) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (node, gpu), counts in sorted(self._counts.items()):
            found.setdefault(node, {})[gpu] = {"workloads": counts.tolist()}
        return found


def jensen_shannon(first: Array, second: Array) -> float:
    """The distance of two histograms, with the natural logarithm."""
    one, other = first / first.sum(), second / second.sum()
    middle = (one + other) / 2
    divergence = sum(
        float((part[part > 0] * np.log(part[part > 0] / middle[part > 0])).sum())
        for part in (one, other)
    )
    return float(np.sqrt(max(0.0, divergence / 2)))


def _boxes(profile: Profile, dimension: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node, table in sorted(profile.nodes.items()):
        samples = table.samples(dimension)
        if samples.names:
            found[node] = {name: box(samples.column(name)) for name in samples.names}
    return found
