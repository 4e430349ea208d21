"""The DescribeTrainingJob response for a job; Trackside's own fields are under `Trackside`."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from trackside.coordination.host_files import has_damaged_record, records_of
from trackside.files import disk_space
from trackside.jobs.records import Record, shareable
from trackside.jobs.update_job import note_of, tags_of
from trackside.records.death import Death
from trackside.records.finding import RuleKey
from trackside.records.hosts import HostRecord
from trackside.records.journal import History, Transition
from trackside.records.layout import JobKeys
from trackside.records.metric_totals import JobMetrics, Totals
from trackside.records.rule_status import DETAILS_MOST, Evaluation
from trackside.texts.shown_names import shown_name

ACCOUNT = "000000000000"
REGION = "local"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/trackside"
"""Returned when a job names no role: clients that attach to a job require one."""

LONGEST_RUNTIME_SECONDS = 28 * 86400
"""Returned for a job without a time limit: clients expect a number, and this is AWS's maximum."""

RULE_JOB_PART = 26
"""Characters of the job's and the configuration's name in the name of a rule's job."""

_NOT_ECHOED = ("Tags", "Trackside")
_JOURNAL = "its journal"


def arn(name: str, region: str = REGION) -> str:
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-job/{name.lower()}"


def rule_job(job: str, rule: RuleKey) -> str:
    """SageMaker creates a processing job per rule; this is a name of that form."""
    is_profiler, configuration = rule
    number = zlib.crc32(f"{job} {'profiler ' * is_profiler}{configuration}".encode())
    return f"{job[:RULE_JOB_PART]}-{configuration[:RULE_JOB_PART]}-{number:08x}"


def rule_arn(job: str, rule: RuleKey, region: str = REGION) -> str:
    name = rule_job(job, rule).lower()
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:processing-job/{name}"


def describe(
    record: Record,
    metrics: JobMetrics,
    evaluations: Sequence[Evaluation] = (),
    *,
    region: str = REGION,
    hosts: Mapping[str, HostRecord] | None = None,
) -> dict[str, Any]:
    """Times are aware datetimes, as boto3 gives; members that do not apply are left out.

    `hosts` are those of a job that runs on other machines.
    """
    request = shareable(record.spec).to_request()
    return {
        "TrainingJobName": record.spec.name,
        "TrainingJobArn": arn(record.spec.name, region),
        "RoleArn": ROLE_ARN,
        **{key: value for key, value in request.items() if key not in _NOT_ECHOED},
        "StoppingCondition": {
            "MaxRuntimeInSeconds": LONGEST_RUNTIME_SECONDS,
            **request["StoppingCondition"],
        },
        "ModelArtifacts": {"S3ModelArtifacts": _model(record)},
        **_state(record.history),
        **_times(record.history),
        **_profiling(record),
        **_rules(record, evaluations, region),
        **_final_metrics(metrics.totals),
        "Trackside": _trackside(record, request["Trackside"], metrics, hosts or {}),
    }


def _state(history: History) -> dict[str, Any]:
    state = {
        "TrainingJobStatus": str(history.state.status),
        "SecondaryStatus": str(history.state.secondary),
        "SecondaryStatusTransitions": [_transition(entry) for entry in history.transitions],
    }
    if history.failure_reason is not None:
        state["FailureReason"] = history.failure_reason[:1024]
    return state


def _transition(entry: Transition) -> dict[str, Any]:
    description = {
        "Status": str(entry.secondary),
        "StartTime": _moment(entry.start),
        "StatusMessage": entry.message,
    }
    if entry.end is not None:
        description["EndTime"] = _moment(entry.end)
    return description


def _times(history: History) -> dict[str, Any]:
    times: dict[str, Any] = {
        "CreationTime": _moment(history.created),
        "LastModifiedTime": _moment(history.modified),
    }
    started, ended = history.training_started, history.ended
    if started is not None:
        times["TrainingStartTime"] = _moment(started)
    if ended is not None:
        times["TrainingEndTime"] = _moment(ended)
    if started is not None and ended is not None:
        seconds = max(1, int(ended - started))
        times["TrainingTimeInSeconds"] = seconds
        times["BillableTimeInSeconds"] = seconds
    return times


def _model(record: Record) -> str:
    """Where the model is or will be."""
    keys = JobKeys(record.keys.output, record.spec.name)
    return keys.model_folder + "/" if record.spec.output.compression == "NONE" else keys.model


def _profiling(record: Record) -> dict[str, Any]:
    if record.spec.profiler is None:
        return {}
    return {"ProfilingStatus": "Disabled" if record.spec.profiler.disabled else "Enabled"}


def _rules(record: Record, evaluations: Sequence[Evaluation], region: str) -> dict[str, Any]:
    """One item for each configured rule, in the order of the request."""
    description = {}
    for member, is_profiler in (
        ("DebugRuleEvaluationStatuses", False),
        ("ProfilerRuleEvaluationStatuses", True),
    ):
        items = [
            _evaluation(record.spec.name, each, region)
            for each in evaluations
            if each.is_profiler is is_profiler
        ]
        if items:
            description[member] = items
    return description


def _evaluation(job: str, evaluation: Evaluation, region: str) -> dict[str, Any]:
    description = {
        "RuleConfigurationName": evaluation.configuration,
        "RuleEvaluationJobArn": rule_arn(job, evaluation.key, region),
        "RuleEvaluationStatus": str(evaluation.status),
        "LastModifiedTime": _moment(evaluation.modified),
    }
    if evaluation.details:
        description["StatusDetails"] = evaluation.details[:DETAILS_MOST]
    return description


def _final_metrics(metrics: Totals) -> dict[str, Any]:
    description = [
        {
            "MetricName": name,
            "Value": total.value,
            "Timestamp": _moment(float(int(total.time))),
        }
        for name, total in sorted(metrics.items())
    ]
    return {"FinalMetricDataList": description} if description else {}


def _trackside(
    record: Record,
    options: dict[str, Any],
    metrics: JobMetrics,
    hosts: Mapping[str, HostRecord],
) -> dict[str, Any]:
    description: dict[str, Any] = {
        "name": shown_name(record.spec.name),
        "owner": record.submitter.owner or None,
        "options": options,
        "tags": tags_of(record),
        "note": note_of(record),
        "attempt": record.history.attempt,
        "stopping_rule": record.history.stopping_rule or None,
        "death": _death(record.history.death),
        "earlier_deaths": [_death(each) for each in record.history.earlier_deaths],
        "max_runtime_seconds": record.spec.stopping.max_runtime_seconds,
        "output": record.keys.prefix,
        "folder": None if record.folder is None else str(record.folder.root),
        "notes": [dict(note) for note in record.history.notes],
        "metrics_switched_off": dict(metrics.switched_off),
        "hosts": {},
        "syncs": {},
        "damaged": {},
        "disk": "",
        "unreachable": record.unreachable,
    }
    if record.history.num_damaged:
        description["damaged"][_JOURNAL] = record.history.num_damaged
    if record.folder is not None:
        if not record.history.state.is_final:
            description["disk"] = disk_space.trouble(record.folder.root)
        hosts = records_of(record.folder, record.spec.hosts, record.history.attempt)
        for host in record.spec.hosts:
            if host not in hosts and has_damaged_record(
                record.folder, host, record.history.attempt
            ):
                description["damaged"][f"the record of {host}"] = 1
    for host, seen in hosts.items():
        description["hosts"][host] = asdict(seen)
        description["syncs"][host] = description["hosts"][host].pop("syncs")
    return description


def _death(death: Death | None) -> dict[str, Any] | None:
    return None if death is None else {**death.line, "attempt": death.attempt}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
