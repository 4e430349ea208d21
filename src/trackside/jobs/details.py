"""Details by which users search and sort jobs, and which the index does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.jobs.described_locations import curves_uri, num_hosts_of
from trackside.jobs.records import Record
from trackside.jobs.update_job import note_of, tags_of
from trackside.records.layout import curves_of
from trackside.records.metric_totals import JobMetrics


@dataclass(frozen=True, slots=True)
class JobDetails:
    name: str
    hyperparameters: Mapping[str, str]
    """As on the wire, including those that say what to run."""
    arguments: Sequence[str]
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    """The last value of each metric from its log, or reported by its script through AWS's APIs."""
    curves: str
    """Where its event files are stored."""
    note: str = ""
    num_hosts: int = 1
    failure: str = ""
    """Why it failed, as on the wire."""


def details_of(record: Record, metrics: JobMetrics) -> JobDetails:
    spec = record.spec
    return JobDetails(
        spec.name,
        spec.hyperparameters,
        spec.options.arguments,
        tags_of(record),
        {name: total.value for name, total in metrics.totals.items()},
        curves_of(spec, record.keys),
        note_of(record),
        len(spec.hosts),
        record.history.failure_reason or "",
    )


def details_in(described: Mapping[str, Any]) -> JobDetails:
    """From a server's Search response, including Trackside's own fields."""
    name, own = described["TrainingJobName"], described["Trackside"]
    return JobDetails(
        name,
        described.get("HyperParameters", {}),
        own["options"].get("Arguments", ()),
        {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())},
        {each["MetricName"]: each["Value"] for each in described.get("FinalMetricDataList", ())},
        curves_uri(described),
        own.get("note", ""),
        num_hosts_of(described),
        described.get("FailureReason", ""),
    )
