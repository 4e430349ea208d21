"""SageMaker's training API: its operations, and our errors as its codes."""

from dataclasses import asdict, dataclass
from typing import Any

from trackside.api.call import ServiceError
from trackside.api.fair_pool import ThreadPools
from trackside.api.json_service import JsonService, Operation, OperationCall, Response
from trackside.api.keys import Rights
from trackside.api.locations import Locations
from trackside.api.sagemaker_issues import IssueOperations
from trackside.api.sagemaker_jobs import CheckQuota, TrainingJobs, no_quota
from trackside.api.sagemaker_processing import ProcessingJobs
from trackside.api.sagemaker_search import JobSearch
from trackside.api.sagemaker_update import JobUpdate, Note, Tags
from trackside.api.validation import invalid, not_found, parsed, refused
from trackside.errors import (
    DiskFull,
    InvalidSpec,
    JobBusy,
    JobElsewhere,
    JobNotFinished,
    JobNotFound,
    OwnerLimitExceeded,
    QuotaExceeded,
    StoreUnreachable,
    TracksideError,
)
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import LimitOf, no_limit
from trackside.records.members import member

_RETRY_SECONDS = "5"


def sagemaker(
    jobs: Jobs,
    pools: ThreadPools | None = None,
    check_quota: CheckQuota = no_quota,
    limit_of: LimitOf = no_limit,
) -> JsonService:
    locations = Locations.of(jobs.settings)
    training = TrainingJobs(jobs, locations, check_quota, limit_of)
    processing = ProcessingJobs(jobs)
    updates, tags, search = JobUpdate(jobs, locations), Tags(jobs), JobSearch(jobs)
    issues = IssueOperations(jobs)
    operations = {
        "CreateTrainingJob": Operation(Rights.SUBMIT, training.create),
        "DescribeTrainingJob": Operation(Rights.READ, training.describe),
        "ListTrainingJobs": Operation(Rights.READ, training.list),
        "StopTrainingJob": Operation(Rights.SUBMIT, training.stop),
        "UpdateTrainingJob": Operation(Rights.SUBMIT, updates.update),
        "DeleteTrainingJob": Operation(Rights.SUBMIT, training.delete),
        "AddTags": Operation(Rights.SUBMIT, tags.add),
        "ListTags": Operation(Rights.READ, tags.list),
        "DeleteTags": Operation(Rights.SUBMIT, tags.delete),
        "Search": Operation(Rights.READ, search.search, is_heavy=True),
        "DescribeProcessingJob": Operation(Rights.READ, processing.describe),
        "ListProcessingJobs": Operation(Rights.READ, processing.list, is_heavy=True),
        "StopProcessingJob": Operation(Rights.SUBMIT, processing.stop),
        "TracksideIssues": Operation(Rights.READ, issues.list, is_heavy=True),
        "TracksideSetIssue": Operation(Rights.SUBMIT, issues.set_state, is_heavy=True),
        "TracksideNote": Operation(Rights.SUBMIT, Note(jobs).put),
        "TracksideQueue": Operation(Rights.READ, _Queue(jobs, limit_of).describe, is_heavy=True),
    }
    return JsonService("sagemaker", operations, service_error, pools)


def service_error(error: TracksideError) -> ServiceError:
    match error:
        case JobElsewhere():
            return invalid(str(error))
        case JobNotFound():
            return not_found()
        case InvalidSpec():
            return refused(error.violations)
        case JobNotFinished():
            return ServiceError("ResourceInUse", str(error))
        case QuotaExceeded() | OwnerLimitExceeded():
            return ServiceError("ResourceLimitExceeded", str(error))
        case StoreUnreachable() | DiskFull() | JobBusy():
            # Nothing was stored, so clients can retry.
            headers = {"retry-after": _RETRY_SECONDS}
            return ServiceError("ServiceUnavailable", str(error), 503, headers)
        case _:
            return invalid(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueueRequest:
    with_own: bool = member("Trackside", bool, default=False)
    """As in the other operations; there are no other parameters."""


class _Queue:
    """The queue of the server's machine, for our own clients: AWS has no such operation.

    Every key may see which jobs wait and why, but not which key submitted a job.
    """

    def __init__(self, jobs: Jobs, limit_of: LimitOf) -> None:
        self._jobs = jobs
        self._limit_of = limit_of

    def describe(self, call: OperationCall) -> Response:
        parsed(_QueueRequest, call.params)
        queue: dict[str, Any] = asdict(self._jobs.queue(self._limit_of))
        entries = [*queue["running"], *(waiter["entry"] for waiter in queue["waiting"])]
        for entry in entries:
            del entry["key"]
        return queue
