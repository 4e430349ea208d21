"""Converts a server's responses about jobs to the records used on this machine."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from trackside.jobs.index import JobSummary
from trackside.jobs.records import Record
from trackside.records.death import Death
from trackside.records.journal import History, Transition
from trackside.records.layout import JobKeys
from trackside.records.owners import Submitter
from trackside.records.spec import IGNORED, JobSpec
from trackside.records.status import Secondary, State, Status

_REQUEST_MEMBERS = {
    *IGNORED,
    *(each.metadata["member"].path.partition(".")[0] for each in fields(JobSpec) if each.metadata),
}
"""The members of a description that are part of the request."""


def described(response: Mapping[str, Any]) -> dict[str, Any]:
    """With times as aware datetimes, as on this machine."""
    members = {key: _timed(key, value) for key, value in response.items() if key != "Trackside"}
    return {**members, "Trackside": response["Trackside"]}


def record_of(response: Mapping[str, Any]) -> Record:
    """Without a folder: that is on the server."""
    request = {key: value for key, value in response.items() if key in _REQUEST_MEMBERS}
    name, own = response["TrainingJobName"], response["Trackside"]
    if own.get("max_runtime_seconds", 0) is None:  # AWS's form cannot express that
        limits = request["StoppingCondition"].items()
        without = {key: value for key, value in limits if key != "MaxRuntimeInSeconds"}
        request["StoppingCondition"] = without
    spec = JobSpec.from_request({**request, "Trackside": own["options"]})
    keys = JobKeys(own["output"].removesuffix(f"/{name}"), name)
    history = history_of(response)
    # An older server does not return the owner.
    submitter = replace(Submitter.of(history), owner=own.get("owner") or "")
    return Record(spec, history, keys, None, submitter=submitter)


def history_of(response: Mapping[str, Any]) -> History:
    """As far as a description has it: times in milliseconds, and no line numbers."""
    transitions = tuple(
        Transition(
            Secondary(each["Status"]), each["StartTime"], each["StatusMessage"], each.get("EndTime")
        )
        for each in response["SecondaryStatusTransitions"]
    )
    own = response["Trackside"]
    return History(
        state=State(Status(response["TrainingJobStatus"]), Secondary(response["SecondaryStatus"])),
        version=len(transitions) + len(own["notes"]),
        transitions=transitions,
        attempt=own["attempt"],
        failure_reason=response.get("FailureReason"),
        notes=tuple(own["notes"]),
        stopping_rule=own.get("stopping_rule") or "",
        death=Death.of_line(own.get("death") or {}, own["attempt"]),
    )


def summary_of(row: Mapping[str, Any]) -> JobSummary:
    own = row["Trackside"]
    return JobSummary(
        name=row["TrainingJobName"],
        output=own["output"],
        status=row["TrainingJobStatus"],
        secondary=row["SecondaryStatus"],
        created=row["CreationTime"],
        modified=row["LastModifiedTime"],
        training_started=own["training_started"],
        ended=row.get("TrainingEndTime"),
        owner=own.get("owner") or "",
    )


def _timed(key: str, value: Any) -> Any:
    if isinstance(value, int | float) and key.endswith(("Time", "Timestamp")):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, Mapping):
        return {inner: _timed(inner, each) for inner, each in value.items()}
    if isinstance(value, list):
        return [_timed(key, each) for each in value]
    return value
