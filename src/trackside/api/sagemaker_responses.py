"""Descriptions of a job in SageMaker's wire format."""

import math
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from trackside.jobs.describe import arn
from trackside.jobs.index import JobSummary

MOST_METRICS = 40
OWN = "Trackside"
"""The member that AWS's services do not have."""
_RULES = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")


def described(job: Mapping[str, Any], *, with_own: bool = False) -> dict[str, Any]:
    """With the defaults that the service adds; members that it does not know only on request."""
    description: dict[str, Any] = wire({key: value for key, value in job.items() if key != OWN})
    if with_own:
        description[OWN] = job[OWN]
    for member in _RULES:
        for rule in description.get(member, ()):
            rule.setdefault("VolumeSizeInGB", 0)
    if metrics := description.pop("FinalMetricDataList", []):
        defined = description.get("AlgorithmSpecification", {}).get("MetricDefinitions", ())
        description["FinalMetricDataList"] = _final(metrics, {each["Name"] for each in defined})
    return description


def summary(row: JobSummary, region: str, *, with_own: bool = False) -> dict[str, Any]:
    description: dict[str, Any] = {
        "TrainingJobName": row.name,
        "TrainingJobArn": arn(row.name, region),
        "CreationTime": moment(row.created),
        "LastModifiedTime": moment(row.modified),
        "TrainingJobStatus": row.status,
        "SecondaryStatus": row.secondary,
    }
    if row.ended is not None:
        description["TrainingEndTime"] = moment(row.ended)
    if with_own:
        description[OWN] = {
            "output": row.output,
            "training_started": row.training_started,
            "owner": row.owner or None,
        }
    return description


def _final(metrics: Sequence[dict[str, Any]], defined: Set[str]) -> list[dict[str, Any]]:
    """As many as the service returns: those defined first. JSON has no NaN."""
    finite = [each for each in metrics if math.isfinite(each["Value"])]
    return sorted(finite, key=lambda each: each["MetricName"] not in defined)[:MOST_METRICS]


def moment(seconds: float) -> float:
    """To the millisecond, as the service has it."""
    return round(seconds, 3)


def wire(value: Any) -> Any:
    """Times as numbers; absent members are left out."""
    if isinstance(value, datetime):
        return moment(value.timestamp())
    if isinstance(value, Mapping):
        return {key: wire(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [wire(inner) for inner in value]
    return value
