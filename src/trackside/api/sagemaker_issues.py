"""Issues of the server's jobs, for our own clients: AWS has no such operations."""

from dataclasses import dataclass

from trackside.api.json_service import OperationCall, Response
from trackside.api.ownership import acting_for
from trackside.api.validation import parsed
from trackside.jobs.jobs import Jobs
from trackside.records.members import member
from trackside.views.problems.issues import Issues


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListRequest:
    id: str | None = member("Id", default=None, most=64)
    """Only this one, by its id or the beginning of it."""
    states: tuple[str, ...] = member("States", tuple, default=(), most=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StateRequest:
    id: str = member("Id", least=1, most=64)
    state: str = member("State", least=1, most=16)
    more_jobs: int = member("MoreJobs", int, default=1)


class IssueOperations:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._issues = Issues(jobs)

    def list(self, call: OperationCall) -> Response:
        request = parsed(_ListRequest, call.params)
        if request.id is not None:
            return {"issues": [self._issues.find(request.id).to_json()], "sentence": ""}
        return self._issues.overview(states=request.states or None).to_json()

    def set_state(self, call: OperationCall) -> Response:
        """Issues concern the jobs of several owners: every key that may submit may say so."""
        request = parsed(_StateRequest, call.params)
        by = acting_for(call.caller, self._jobs)
        issue = self._issues.set_state(
            request.id, request.state, more_jobs=request.more_jobs, by=by
        )
        return issue.to_json()
