"""Profiler output with smdebug's interface: events between two times.

Times are microseconds since the epoch. Our own rules read `Profile`, whose arrays are faster.
"""

import time
from pathlib import Path

import numpy as np

from trackside.capture.exceptions import NoMoreProfilerData
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.profile import Profile

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SystemMetric:
    name: str
    """cpu0, gpu1, …"""
    dimension: str
    value: float
    node_id: str
    timestamp: float
    """Seconds, as in the files."""

    @property
    def type(self) -> str:
        """cpu, gpu, …: the name without its number."""
        return self.name.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class FrameworkMetric:
    event_phase: str
    """`Step:ModeKeys.TRAIN`, `DataLoaderWorker`, …"""
    node_id: str
    start_time: int
    duration: int
    step: int
    """-1 for an event without a step."""
    tid: int
    pid: int = 0
    phase: str = "X"

    @property
    def event_name(self) -> str:
        return self.event_phase

    @property
    def event_args(self) -> dict[str, int]:
        return {} if self.step < 0 else {"step_num": self.step}

    @property
    def end_time(self) -> int:
        return self.start_time + self.duration


class ProfilerTrial:
    """Every query reads new data first, until the job has ended."""

    def __init__(
        self, path: str | Path, name: str | None = None, *, home: Path | None = None
    ) -> None:
        """`path` is a job's `profiler-output`, in a folder or in object storage."""
        self.path = str(path)
        self.name = name or self.path.rstrip("/").rpartition("/")[2]
        self.profile = Profile(path, home=home)

    @property
    def first_timestamp(self) -> int:
        """0 while there is no data."""
        self.profile.advance()
        return _microseconds(self.profile.first_time or 0.0)

    @property
    def last_timestamp(self) -> int:
        self.profile.advance()
        return _microseconds(self.profile.last_time or 0.0)

    def get_system_metrics(self, start: int, end: int) -> list[SystemMetric]:
        """Those from `start` up to `end` (exclusive), by time."""
        self.profile.advance()
        found = []
        for node, table in sorted(self.profile.nodes.items()):
            first, last = table.row(start / 1e6), table.row(end / 1e6)
            for dimension in table.dimensions:
                samples = table.samples(dimension, first, last)
                for row, column in np.argwhere(~np.isnan(samples.values)).tolist():
                    value, moment = float(samples.values[row, column]), float(samples.times[row])
                    name = samples.names[column]
                    found.append(SystemMetric(name, dimension, value, node, moment))
        return sorted(found, key=lambda each: each.timestamp)

    def get_framework_metrics(self, start: int, end: int) -> list[FrameworkMetric]:
        """Those that began from `start` up to `end` (exclusive), by time."""
        self.profile.advance()
        found = [
            FrameworkMetric(
                phase, worker, _microseconds(started), _microseconds(lasted), int(step), int(thread)
            )
            for worker, phases in self.profile.events.items()
            for phase, all_events in phases.items()
            for events in [all_events.between(start / 1e6, end / 1e6)]
            for started, lasted, step, thread in zip(
                events.starts, events.durations, events.steps, events.threads, strict=True
            )
        ]
        return sorted(found, key=lambda each: each.start_time)

    def wait_for_data(self, end: int, start: int = 0) -> None:
        """Wait until there is data up to `end`, or the job has ended. `NoMoreProfilerData` when it
        has ended without data after `start`.
        """
        while self.last_timestamp < end:
            if self.profile.is_all:
                if self.last_timestamp <= start:
                    raise NoMoreProfilerData(start)
                return
            time.sleep(POLL_SECONDS)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
