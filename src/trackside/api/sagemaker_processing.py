"""Rule evaluations, described as the processing jobs that SageMaker runs them in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trackside.api import tokens
from trackside.api.json_service import OperationCall, Response
from trackside.api.ownership import check_may_change, shown_to
from trackside.api.sagemaker_responses import moment, wire
from trackside.api.validation import invalid, not_found, parsed
from trackside.errors import JobNotFound
from trackside.jobs.describe import ROLE_ARN, arn, rule_arn, rule_job
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.records.members import member
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.records.spec import RuleConfiguration

_JOBS_AT_ONCE = 200
"""Scanned for one page: most jobs have no rules, and each must be opened to see."""
_STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped")
_DEFAULT_IMAGE = "sagemaker-debugger-rules"
_DEFAULT_INSTANCE = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingName:
    name: str = member("ProcessingJobName", least=1, most=63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    max_results: int = member("MaxResults", int, default=10, least=1, most=100)
    token: str | None = member("NextToken", default=None, most=8192)
    name_contains: str | None = member("NameContains", default=None)
    status: str | None = member("StatusEquals", default=None, choices=_STATUSES)
    created_after: float | None = member("CreationTimeAfter", float, default=None)
    created_before: float | None = member("CreationTimeBefore", float, default=None)
    modified_after: float | None = member("LastModifiedTimeAfter", float, default=None)
    modified_before: float | None = member("LastModifiedTimeBefore", float, default=None)
    sort_by: str = member("SortBy", default="CreationTime", choices=("CreationTime",))
    sort_order: str = member("SortOrder", default="Descending", choices=("Ascending", "Descending"))

    def matches(self, record: Record, evaluation: Evaluation) -> bool:
        name = rule_job(record.spec.name, evaluation.key).lower()
        modified = evaluation.modified
        return (
            (self.name_contains or "").lower() in name
            and self.status in (None, status_of(evaluation))
            and (self.modified_after is None or modified > self.modified_after)
            and (self.modified_before is None or modified < self.modified_before)
        )


class ProcessingJobs:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def describe(self, call: OperationCall) -> Response:
        record, evaluation = self._find(call)
        description = _described(record, evaluation, call.region)
        return shown_to(call.caller, record.spec.name, description, self._jobs)

    def list(self, call: OperationCall) -> Response:
        """A page may be short, and even empty, with a token that leads on."""
        listing = parsed(Listing, call.params)
        after: tuple[Any, ...] | None = None
        skip = 0
        if listing.token:
            after, skip = tokens.position_after(listing.token, call.params, Order.CREATED)
        page = Page(
            order=Order.CREATED,
            descending=listing.sort_order == "Descending",
            limit=_JOBS_AT_ONCE,
            after=after,
            created_after=listing.created_after,
            created_before=listing.created_before,
        )
        found: list[dict[str, Any]] = []
        rows = self._jobs.page(page)
        for row in rows:
            for number, (record, evaluation) in enumerate(self._evaluated(row.name)):
                if number < skip or not listing.matches(record, evaluation):
                    continue
                if len(found) == listing.max_results:
                    token = tokens.token(call.params, [after, number])
                    return {"ProcessingJobSummaries": found, "NextToken": token}
                found.append(_summary(record, evaluation, call.region))
            after, skip = page.order.key(row), 0
        response: dict[str, Any] = {"ProcessingJobSummaries": found}
        if len(rows) == _JOBS_AT_ONCE:
            response["NextToken"] = tokens.token(call.params, [after, 0])
        return response

    def stop(self, call: OperationCall) -> Response:
        """Its evaluator ends the rule within seconds; until then it is Stopping."""
        record, evaluation = self._find(call)
        check_may_change(call, record.spec.name, self._jobs)
        status = status_of(evaluation)
        if status in ("Completed", "Failed", "Stopped"):
            text = f"The request was rejected because the processing job is in status {status}."
            raise invalid(text)
        if evaluation.key not in record.stopped_rules:
            self._jobs.stop_rule(record.spec.name, evaluation.key)
        return None

    def _find(self, call: OperationCall) -> tuple[Record, Evaluation]:
        found = self._jobs.find_rule_job(parsed(ProcessingName, call.params).name)
        if found is None:
            raise not_found()
        return found

    def _evaluated(self, name: str) -> Iterator[tuple[Record, Evaluation]]:
        try:
            record = self._jobs.record(name)
        except JobNotFound:  # deleted since the page was read
            return
        for evaluation in self._jobs.evaluations_of(record):
            yield record, evaluation


def status_of(evaluation: Evaluation) -> str:
    """A rule that found something has done its work: its processing job is complete."""
    match evaluation.status:
        case RuleStatus.NO_ISSUES_FOUND | RuleStatus.ISSUES_FOUND:
            return "Completed" if evaluation.is_over else "InProgress"
        case RuleStatus.ERROR:
            return "Failed"
        case other:
            return str(other)


def _described(record: Record, evaluation: Evaluation, region: str) -> dict[str, Any]:
    job, rule = record.spec.name, _configuration(record, evaluation)
    description = {
        **_summary(record, evaluation, region),
        "TrainingJobArn": arn(job, region),
        "RoleArn": record.spec.role or ROLE_ARN,
        "AppSpecification": {"ImageUri": rule.image or _DEFAULT_IMAGE},
        "Environment": dict(rule.parameters),
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": 1,
                "InstanceType": rule.instance_type or _DEFAULT_INSTANCE,
                "VolumeSizeInGB": rule.volume_gb or 0,
            }
        },
        "ExitMessage": evaluation.details or None,
    }
    if status_of(evaluation) == "Failed":
        description["FailureReason"] = evaluation.details or None
    response: dict[str, Any] = wire(description)
    return response


def _summary(record: Record, evaluation: Evaluation, region: str) -> dict[str, Any]:
    job = record.spec.name
    status = status_of(evaluation)
    description = {
        "ProcessingJobName": rule_job(job, evaluation.key).lower(),
        "ProcessingJobArn": rule_arn(job, evaluation.key, region),
        "CreationTime": moment(record.history.created),
        "LastModifiedTime": moment(evaluation.modified),
        "ProcessingJobStatus": status,
    }
    if status in ("Completed", "Failed", "Stopped"):
        description["ProcessingEndTime"] = moment(evaluation.modified)
    return description


def _configuration(record: Record, evaluation: Evaluation) -> RuleConfiguration:
    spec = record.spec
    rules = spec.profiler_rules if evaluation.is_profiler else spec.debug_rules
    return next(rule for rule in rules if rule.name == evaluation.configuration)
