"""smdebug's readers of profiler output: figures of the machine, and times of steps.

One reader for both folders and object storage, under the original's two names.
"""

from pathlib import Path
from typing import Any

from trackside.rules.saved.profiler_trial import FrameworkMetric, ProfilerTrial
from trackside.smdebug_alias.profiler_times import TimeUnits
from trackside.smdebug_alias.profiler_times import (
    convert_utc_timestamp_to_microseconds as _microseconds,
)

_STEP = "Step:"


class MetricsReaderBase:
    def __init__(self, path: str | Path, use_in_memory_cache: bool = False) -> None:
        """`path` is a job's `profiler-output`. Everything read stays in memory."""
        self._trial = ProfilerTrial(path)

    def refresh_event_file_list(self) -> None:
        """Read what is new."""
        self._trial.profile.advance()

    def get_timestamp_of_first_available_file(self) -> int:
        """Microseconds since the epoch; 0 while there is nothing."""
        return min(self._moments(), default=0)

    def get_timestamp_of_latest_available_file(self) -> int:
        return max(self._moments(), default=0)

    def get_events(
        self,
        start_time: float,
        end_time: float,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: Any = None,
    ) -> list[Any]:
        """From `start_time` up to `end_time` (exclusive), by time; timed events count by their
        start. `event_type` is cpu, gpu, … of figures, else a phase (`Step:ModeKeys.TRAIN`).
        """
        found = self._between(_microseconds(start_time, unit), _microseconds(end_time, unit))
        return [each for kind, each in found if event_type in (None, kind)]

    def _between(self, start: int, end: int) -> list[tuple[str, Any]]:
        """With the type of each."""
        raise NotImplementedError

    def _moments(self) -> list[int]:
        """The times of the first and the last record of each host or process."""
        raise NotImplementedError

    def _profile(self) -> Any:
        self._trial.profile.advance()
        return self._trial.profile


class SystemMetricsReader(MetricsReaderBase):
    """Cores, memory, GPUs, disk and network of the job's hosts: `SystemMetric`s."""

    def _between(self, start: int, end: int) -> list[tuple[str, Any]]:
        return [(each.type, each) for each in self._trial.get_system_metrics(start, end)]

    def _moments(self) -> list[int]:
        tables = [table.times for table in self._profile().nodes.values()]
        return [round(times[end] * 1e6) for times in tables for end in (0, -1)]


class AlgorithmMetricsReader(MetricsReaderBase):
    """Training steps, and other timed events of its processes: `FrameworkMetric`s."""

    def _between(self, start: int, end: int) -> list[tuple[str, Any]]:
        return [(each.event_phase, each) for each in self._trial.get_framework_metrics(start, end)]

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: Any = None,
    ) -> list[FrameworkMetric]:
        """Events that began from the start of one step up to the start of another (exclusive)."""
        steps = [
            each
            for each in self.get_events(0, self.get_timestamp_of_latest_available_file() + 1)
            if each.event_phase.startswith(_STEP)
        ]
        starts = [each.start_time for each in steps if each.step == start_step]
        ends = [each.start_time for each in steps if each.step == end_step]
        if not starts or not ends:
            return []
        return self.get_events(min(starts), min(ends), event_type=event_type)

    def _moments(self) -> list[int]:
        every = [each for phases in self._profile().events.values() for each in phases.values()]
        firsts = [round(each.starts[0] * 1e6) for each in every]
        return firsts + [round(float(each.ends.max()) * 1e6) for each in every]


LocalSystemMetricsReader = S3SystemMetricsReader = SystemMetricsReader
LocalAlgorithmMetricsReader = S3AlgorithmMetricsReader = AlgorithmMetricsReader
