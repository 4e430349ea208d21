"""Details by which users search and sort jobs, and which the index does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.jobs.records import Record
from trackside.jobs.update_job import tags_of
from trackside.records.layout import CURVES_FOLDER, JobKeys, curves_of
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


def details_of(record: Record, metrics: JobMetrics) -> JobDetails:
    spec = record.spec
    return JobDetails(
        spec.name,
        spec.hyperparameters,
        spec.options.arguments,
        tags_of(record),
        {name: total.value for name, total in metrics.totals.items()},
        curves_of(spec, record.keys),
    )


def details_in(described: Mapping[str, Any]) -> JobDetails:
    """From a server's Search response, including Trackside's own fields."""
    name, own = described["TrainingJobName"], described["Trackside"]
    keys = JobKeys(own["output"].removesuffix(f"/{name}"), name)
    tensorboard = described.get("TensorBoardOutputConfig")
    curves = keys.curves
    if tensorboard is not None:
        curves = keys.under(tensorboard["S3OutputPath"], CURVES_FOLDER)
    return JobDetails(
        name,
        described.get("HyperParameters", {}),
        own["options"].get("Arguments", ()),
        {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())},
        {each["MetricName"]: each["Value"] for each in described.get("FinalMetricDataList", ())},
        curves,
    )
