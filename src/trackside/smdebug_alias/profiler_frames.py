"""Profiler output as pandas tables, with smdebug's columns."""

from collections.abc import Collection
from typing import Any

from trackside.capture.reading.extras import import_extra
from trackside.rules.saved.profiler_trial import FrameworkMetric, SystemMetric
from trackside.smdebug_alias.profiler_readers import AlgorithmMetricsReader, SystemMetricsReader
from trackside.smdebug_alias.profiler_times import us_since_epoch_to_human_readable_time as as_text

_SYSTEM = ("timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type")
_FRAMEWORK = (
    *("start_time", "end_time", "start_time_us", "end_time_us", "tid", "pid"),
    *("framework_metric", "step", "bytes", "process", "nodeID"),
)


class PandasFrame:
    """Times named `…_us` count from the machine's first figure."""

    def __init__(
        self, path: str, use_in_memory_cache: bool = False, scan_interval: int = 5 * 10**9
    ) -> None:
        self.path = path
        self.system_metrics_reader = SystemMetricsReader(path)
        self.framework_metrics_reader = AlgorithmMetricsReader(path)
        self.start_time = self.system_metrics_reader.get_timestamp_of_first_available_file()

    def get_all_system_metrics(self, selected_system_metrics: Collection[str] = ()) -> Any:
        return self._system(0, self._end(), selected_system_metrics)

    def get_all_framework_metrics(self, selected_framework_metrics: Collection[str] = ()) -> Any:
        return self._framework(0, self._end(), selected_framework_metrics)

    def get_profiler_data_by_time(
        self,
        start_time_us: int,
        end_time_us: int,
        cache_metrics: bool = False,
        selected_framework_metrics: Collection[str] = (),
        selected_system_metrics: Collection[str] = (),
        get_framework_metrics: bool = True,
        get_system_metrics: bool = True,
    ) -> tuple[Any, Any]:
        """The machine's figures and the script's events; what was not requested is empty."""
        between = (start_time_us, end_time_us)
        return (
            self._system(*(between if get_system_metrics else (0, 0)), selected_system_metrics),
            self._framework(
                *(between if get_framework_metrics else (0, 0)), selected_framework_metrics
            ),
        )

    def get_profiler_data_by_step(
        self, start_step: int, end_step: int, cache_metrics: bool = False
    ) -> tuple[Any, Any]:
        """From the start of one step up to the start of another (exclusive)."""
        events = self.framework_metrics_reader.get_events_by_step(start_step, end_step)
        start = min((each.start_time for each in events), default=0)
        end = max((each.end_time for each in events), default=0)
        return self.get_profiler_data_by_time(start, end)

    def _end(self) -> int:
        readers = (self.system_metrics_reader, self.framework_metrics_reader)
        return max(each.get_timestamp_of_latest_available_file() for each in readers) + 1

    def _system(self, start: int, end: int, chosen: Collection[str]) -> Any:
        found = self.system_metrics_reader.get_events(start, end)
        rows = [self._figure(each) for each in found if not chosen or each.name in chosen]
        return _table(rows, _SYSTEM)

    def _framework(self, start: int, end: int, chosen: Collection[str]) -> Any:
        found = self.framework_metrics_reader.get_events(start, end)
        rows = [self._event(each) for each in found if not chosen or each.event_phase in chosen]
        return _table(rows, _FRAMEWORK)

    def _figure(self, each: SystemMetric) -> tuple[Any, ...]:
        moment = round(each.timestamp * 1e6)
        return (
            *(as_text(moment), moment - self.start_time, each.value),
            *(each.name, each.dimension, each.node_id, each.type),
        )

    def _event(self, each: FrameworkMetric) -> tuple[Any, ...]:
        start, end = each.start_time, each.end_time
        return (
            *(as_text(start), as_text(end), start - self.start_time, end - self.start_time),
            *(each.tid, each.pid, each.event_name, each.step, -1, each.event_phase, each.node_id),
        )


def _table(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> Any:
    return import_extra("pandas").DataFrame(rows, columns=columns).drop_duplicates()
