"""Rules about the time that steps, and the start before them, take."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.parameters import Mode, parameter
from trackside.rules.profiler.profiler_rule import CPU, ProfilerRule
from trackside.rules.profiler.summaries import box, overall
from trackside.rules.saved.profile import STEP, Profile, Window, mean_of_columns
from trackside.rules.saved.profile_tables import Events

LEAST_STEPS = 100
"""A phase needs more steps than this before any is called an outlier."""
LOADER = "DataLoaderWorker"
NO_STEPS = "No step times were recorded, so there was nothing to watch."


@dataclass
class StepOutlier(ProfilerRule):
    """Some steps take far longer than the others.

    Checks each process and mode with more than 100 steps. An outlier takes longer than the mean
    plus `stddev` standard deviations. Fires when there are more than `n_outliers`. The first step,
    which compiles and allocates, is left out of the mean and the deviation, because it would hide
    the others. On a machine without GPUs the rule also detects a data loader that stalls: the
    finding says how busy the processors were in the outliers and in the other steps.
    """

    rests_on = (
        "step_seconds",
        "between_seconds",
        "machine:cpu/total_percent",
        "machine:gpu_*/utilization_percent",
    )
    advice = (
        "See what these steps have in common: a checkpoint, an evaluation, a first batch of an "
        "epoch, a longer sequence. If the processors idle meanwhile, the step waits, mostly for "
        "data: load it in more processes (num_workers) and prefetch."
    )

    stddev: float = parameter(3.0, "Standard deviations above the mean.", at_least=0)
    mode: Mode | None = parameter(None, "TRAIN, EVAL, PREDICT or GLOBAL; None is all.")
    n_outliers: int = parameter(10, "Number of outliers that is accepted.", at_least=0)

    def judge(self, window: Window) -> Iterator[Finding]:
        self.datapoints = self.violations = 0
        for worker, phase in _step_phases(window.profile, self.mode):
            steps = window.events_so_far(worker, phase)
            self.datapoints += len(steps)
            if len(steps) <= LEAST_STEPS:
                continue
            limit = outlier_limit(steps, self.stddev)
            outliers = steps.durations > limit
            self.violations += int(outliers.sum())
            if outliers.sum() > self.n_outliers:
                yield from self._finding(window.profile, worker, phase, steps, outliers, limit)

    def _finding(
        self,
        profile: Profile,
        worker: str,
        phase: str,
        steps: Events,
        outliers: Array,
        limit: float,
    ) -> Iterator[Finding]:
        mode = phase.removeprefix(STEP)
        longest = int(np.argmax(steps.durations))
        rank, _, node = worker.partition("-")
        return self.report_once(
            f"{int(outliers.sum())} of {len(steps):,} {mode} steps (more than "
            f"{self.n_outliers}) of rank {rank} on {node} took longer than {_span(limit)}, "
            f"where the median is {_span(float(np.median(steps.durations)))}. The longest is "
            f"step {steps.steps[longest]} with {_span(float(steps.durations[longest]))}."
            f"{_how_busy(profile, node, steps, outliers)}",
            mode=mode,
            worker=worker,
            value=float(outliers.sum()),
            threshold=float(self.n_outliers),
        )

    def missing(self, profile: Profile) -> str:
        return "" if list(_step_phases(profile, self.mode)) else NO_STEPS

    def details(self, profile: Profile) -> dict[str, Any]:
        return _phase_details(profile, self.mode)


@dataclass
class MaxInitializationTime(ProfilerRule):
    """The first step starts late.

    Fires when the first step starts more than `threshold` minutes after the first value, or has not
    started by then.
    """

    rests_on = ("machine:cpu/total_percent", "machine:disk/read_bytes_per_second")
    advice = (
        "Shorten what comes before training: download less or use FastFile, cache what is "
        "preprocessed and compiled, and install packages beforehand."
    )

    threshold: float = parameter(20.0, "Minutes that are too long.", at_least=0)

    def judge(self, window: Window) -> Iterator[Finding]:
        profile = window.profile
        first = profile.first_time
        assert first is not None  # there is no window without a first figure
        started = _first_step(profile)
        self.datapoints += 1
        minutes = (min(started, window.end) - first) / 60
        if not minutes > self.threshold:
            return
        self.violations += 1
        if started == np.inf:
            how = "and no step has been seen; a script whose steps are not recorded shows none"
        else:
            how = "before the first step began"
        yield from self.report_once(
            f"{minutes:.1f} minutes went by, more than {self.threshold:g}, {how}.",
            value=minutes,
            threshold=self.threshold,
        )

    def details(self, profile: Profile) -> dict[str, Any]:
        started, first = _first_step(profile), profile.first_time
        if first is None or started == np.inf:
            return {}
        return {"step_num": {"first": round(started - first, 3)}}


@dataclass
class Dataloader(ProfilerRule):
    """Data is loaded by too few or too many processes for the machine.

    Checks the seconds in which data-loading processes worked, once there are more than `patience`.
    Fires when the median number of different processes in a second is below `min_threshold` % or
    above `max_threshold` % of the node's cores.
    """

    explains = ("BatchSize", "CPUBottleneck", "LowGPUUtilization")
    rests_on = ("between_seconds", "step_seconds", "machine:cpu/total_percent")
    advice = "Set num_workers of the DataLoader near the number of cores."

    min_threshold: float = parameter(70.0, "Too few, % of the cores.", at_least=0)
    max_threshold: float = parameter(200.0, "Too many, % of the cores.", at_least=0)
    patience: int = parameter(10, "No finding before more seconds than this.", at_least=0)

    def judge(self, window: Window) -> Iterator[Finding]:
        for worker in window.profile.workers:
            node = worker.partition("-")[2]
            cores = _num_cores(window.profile, node)
            processes = _loaders_by_second(window.profile, worker, window.end)
            self.datapoints = max(self.datapoints, len(processes))
            if not cores or len(processes) <= self.patience:
                continue
            percent = 100 * float(np.median(processes)) / cores
            is_low = percent < self.min_threshold
            if is_low or percent > self.max_threshold:
                self.violations += 1
                yield from self._finding(worker, percent, cores, is_low=is_low)

    def _finding(
        self, worker: str, percent: float, cores: int, *, is_low: bool
    ) -> Iterator[Finding]:
        threshold = self.min_threshold if is_low else self.max_threshold
        side = "below" if is_low else "above"
        return self.report_once(
            f"{percent * cores / 100:g} data-loading processes work at a time on the {cores} "
            f"cores of {worker.partition('-')[2]}: {percent:.0f} %, {side} {threshold:g} %.",
            worker=worker,
            subject="too few" if is_low else "too many",
            value=percent,
            threshold=threshold,
        )

    def missing(self, profile: Profile) -> str:
        if any(LOADER in phases for phases in profile.events.values()):
            return ""
        return "No data-loading processes were recorded, so there was nothing to watch."

    def details(self, profile: Profile) -> dict[str, Any]:
        found = {}
        for worker in profile.workers:
            processes = _loaders_by_second(profile, worker, np.inf)
            if len(processes):
                found[worker] = {
                    "cores": _num_cores(profile, worker.partition("-")[2]),
                    "num_processes": box(processes),
                }
        return found


@dataclass
class OverallFrameworkMetrics(ProfilerRule):
    """Never fires. Its report shows the time of each phase."""

    def judge(self, window: Window) -> Iterator[Finding]:
        return iter(())

    def missing(self, profile: Profile) -> str:
        return "" if profile.events else NO_STEPS

    def details(self, profile: Profile) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for worker, phases in sorted(profile.events.items()):
            for phase, events in sorted(phases.items()):
                totals = {"count": len(events), "seconds": round(float(events.durations.sum()), 6)}
                found.setdefault(worker, {})[phase] = {**totals, **overall(events.durations)}
        self.datapoints = sum(
            each["count"] for phases in found.values() for each in phases.values()
        )
        return found


def outlier_limit(steps: Events, deviations: float) -> float:
    """How long a step may take, in seconds; of two steps at least."""
    warm = steps.durations[1:]
    return float(warm.mean() + deviations * warm.std())


def _step_phases(profile: Profile, mode: str | None) -> Iterator[tuple[str, str]]:
    for worker in profile.workers:
        for phase in sorted(profile.events[worker]):
            if phase.startswith(STEP) and mode in (None, phase.removeprefix(STEP)):
                yield worker, phase


def _how_busy(profile: Profile, node: str, steps: Events, outliers: Array) -> str:
    """The processors in the outliers and otherwise: whether these steps worked or waited."""
    if node not in profile.nodes:
        return ""
    samples = profile.nodes[node].samples(CPU)
    busy = mean_of_columns(samples.values)
    step = np.searchsorted(steps.starts, samples.times, side="right") - 1
    inside = (step >= 0) & (samples.times <= steps.ends[step]) & ~np.isnan(busy)
    slow = inside & outliers[step]
    if not slow.any() or not (inside & ~slow).any():
        return ""
    then, otherwise = float(busy[slow].mean()), float(busy[inside & ~slow].mean())
    return f" In these steps the processors were busy {then:.0f} %, else {otherwise:.0f} %."


def _first_step(profile: Profile) -> float:
    """When it began; infinity while there is none."""
    phases = _step_phases(profile, None)
    starts = [float(profile.events[worker][phase].starts[0]) for worker, phase in phases]
    return min(starts, default=np.inf)


def _num_cores(profile: Profile, node: str) -> int:
    return len(profile.nodes[node].names(CPU)) if node in profile.nodes else 0


def _loaders_by_second(profile: Profile, worker: str, end: float) -> Array:
    """For each second in which data was loaded: how many processes did it."""
    events = profile.events[worker].get(LOADER, Events.none()).between(-np.inf, end)
    pairs = {
        (second, int(thread))
        for start, stop, thread in zip(events.starts, events.ends, events.threads, strict=True)
        for second in range(int(start), int(stop) + 1)
    }
    seconds = np.array([second for second, _ in pairs], np.int64)
    return np.unique(seconds, return_counts=True)[1]


def _phase_details(profile: Profile, mode: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for worker, phase in _step_phases(profile, mode):
        durations = profile.events[worker][phase].durations
        totals = {
            "mean": round(float(durations.mean()), 6),
            "stddev": round(float(durations.std()), 6),
        }
        found.setdefault(worker, {})[phase] = {**totals, **box(durations)}
    return found


def _span(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
