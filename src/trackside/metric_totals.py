"""What a job's metrics have come to: the small file that each host keeps beside its curves.

`curves/log_metrics.py` writes it; FinalMetricDataList and the command line are read from it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricTotal:
    """One metric on one host; several hosts feed the same metric."""

    count: int
    value: float
    """The last one."""
    time: float
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
    """Patterns that are no longer looked for, and why."""


def started(value: float, time: float) -> MetricTotal:
    return MetricTotal(1, value, time, value, value)


def to_json(totals: Totals) -> dict[str, Any]:
    return {name: asdict(total) for name, total in totals.items()}


def from_json(record: Any) -> dict[str, MetricTotal]:
    """Of the file as a whole; `KeyError` or `TypeError` when it is something else."""
    return {name: MetricTotal(**total) for name, total in record["metrics"].items()}


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
