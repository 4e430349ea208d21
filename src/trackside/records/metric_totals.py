"""Totals of a job's metrics: the small file that each host stores next to its curves.

`curves/log_metrics.py` writes it; FinalMetricDataList and the command line are read from it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from typing import Any

from trackside.files.json_record import DamagedRecord, Moment, record
from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MetricTotal:
    """One metric on one host; several hosts report the same metric."""

    count: int
    value: float
    """The last value."""
    time: Moment
    """When it was written (seconds since the epoch)."""
    least: float
    most: float

    def and_(self, value: float, time: float) -> "MetricTotal":
        return MetricTotal(
            self.count + 1, value, time, min(self.least, value), max(self.most, value)
        )


Totals = Mapping[str, MetricTotal]


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """All hosts' together."""

    totals: Totals = field(default_factory=dict)
    switched_off: Mapping[str, str] = field(default_factory=dict)
    """Patterns that are no longer searched for, and why."""


def started(value: float, time: float) -> MetricTotal:
    return MetricTotal(1, value, time, value, value)


def to_json(totals: Totals) -> dict[str, Any]:
    return {name: asdict(total) for name, total in totals.items()}


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """One host's file. It also has the position where its writer stopped."""

    metrics: dict[str, MetricTotal]
    switched_off: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    file: str | None = None
    file_bytes: int = 0


def from_json(content: Mapping[str, Any]) -> MetricsFile:
    """Without damaged metrics; `DamagedRecord` when it is something else altogether."""
    listed = content.get("metrics")
    if not isinstance(listed, Mapping):
        raise DamagedRecord("it holds no metrics")
    found = record(MetricsFile, {**content, "metrics": {}})
    for name, total in listed.items():
        with suppress(DamagedRecord):
            found.metrics[name] = record(MetricTotal, total)
    return found


def merged(of_hosts: Iterable[Totals]) -> dict[str, MetricTotal]:
    """The totals of a job: the last value is that of the host that wrote last."""
    found: dict[str, MetricTotal] = {}
    for totals in of_hosts:
        for name, total in totals.items():
            known = found.get(name)
            found[name] = total if known is None else _joined(known, total)
    return found


def _joined(one: MetricTotal, other: MetricTotal) -> MetricTotal:
    newest = max(one, other, key=lambda total: total.time)
    least, most = min(one.least, other.least), max(one.most, other.most)
    return MetricTotal(one.count + other.count, newest.value, newest.time, least, most)
