"""`JobService` for the jobs of a server."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trackside.errors import ServerError
from trackside.jobs import follow
from trackside.jobs.describe import arn
from trackside.jobs.follow import PollInterval, ReadHistory
from trackside.jobs.logs import LogLine, SeenLogs
from trackside.jobs.rule_updates import Findings
from trackside.jobs.stored_data import Stored, stored_by
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation
from trackside.remote.job_log import JobLog
from trackside.remote.remote_submitter import RemoteSubmitter
from trackside.remote.retry_policy import LONG_RETRY
from trackside.remote.rule_updates import PublishedUpdates

_QUICK_SECONDS = 0.2
_SLOW_SECONDS = 2.0


class RemoteJobs(RemoteSubmitter):
    """All methods may be called from several threads at once."""

    def jobs(self) -> "RemoteJobs":
        return self

    def stop(self, name: str) -> History:
        history = self._history(name)
        if history.state.is_final:
            return history
        try:
            self._call("StopTrainingJob", {"TrainingJobName": name}, job=name)
        except ServerError as refused:
            if refused.service_code != "ValidationException":
                raise  # otherwise it finished by itself in between
        return self._history(name)

    def wait(self, name: str, *, timeout_seconds: float | None = None) -> History:
        changes = self.changes(name, timeout_seconds=timeout_seconds)
        return follow.wait(name, changes, timeout_seconds)

    def changes(self, name: str, *, timeout_seconds: float | None = None) -> Iterator[History]:
        self._history(name)  # `JobNotFound` at once
        return follow.changes(*self._polling(name), timeout_seconds)

    def logs(
        self,
        name: str,
        *,
        host: str | None = None,
        after: SeenLogs | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        if not follow:
            return super().logs(name, host=host, after=after)
        items = self.follow(name, host=host, after=after)
        return (item for item in items if isinstance(item, LogLine))

    def follow(
        self, name: str, *, host: str | None = None, after: SeenLogs | None = None
    ) -> Iterator[History | LogLine]:
        log = JobLog(self._client, self._record(name), host, after, retry_policy=LONG_RETRY)
        items = self._follow(name, log)
        return (item for item in items if isinstance(item, History | LogLine))

    def follow_all(self, name: str) -> Iterator[History | LogLine | Findings | Evaluation]:
        record = self._record(name)
        log = JobLog(self._client, record, retry_policy=LONG_RETRY)
        return self._follow(name, log, PublishedUpdates(record, self._home.root))

    def change_tags(
        self, name: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> dict[str, str]:
        resource = {"ResourceArn": arn(name)}
        if put:
            tags = [{"Key": key, "Value": value} for key, value in put.items()]
            self._call("AddTags", {**resource, "Tags": tags}, job=name)
        if remove:
            self._call("DeleteTags", {**resource, "TagKeys": [*remove]}, job=name)
        return self.tags(name)

    def set_note(self, name: str, text: str) -> str:
        request = {"TrainingJobName": name, "Text": text}
        return str(self._call("TracksideNote", request, job=name)["Text"])

    def issues(self, id: str | None = None, states: Sequence[str] = ()) -> dict[str, Any]:
        """Problems grouped over the server's jobs; with `id` only that one."""
        request = {"States": [*states], **({} if id is None else {"Id": id})}
        return self._call("TracksideIssues", request)

    def set_issue(self, id: str, state: str, more_jobs: int = 1) -> dict[str, Any]:
        return self._call("TracksideSetIssue", {"Id": id, "State": state, "MoreJobs": more_jobs})

    def stored(self, name: str) -> list[Stored]:
        return stored_by(self._record(name), self._home)

    def delete(self, name: str, *, data: bool = False, checkpoints: bool = False) -> list[Stored]:
        stored = self.stored(name) if data else []
        request = {"TrainingJobName": name, "Trackside": True}
        own = {"TracksideData": data, "TracksideCheckpoints": checkpoints}
        response = self._call("DeleteTrainingJob", {**request, **own}, job=name)
        if "Trackside" not in response:  # an older server removes no data
            return stored
        return [Stored(**each) for each in response["Trackside"]]

    def _follow(
        self, name: str, log: JobLog, rules: PublishedUpdates | None = None
    ) -> Iterator[History | LogLine | Findings | Evaluation]:
        def new_lines(history: History) -> Iterator[LogLine]:
            return log.lines(whole=history.state.is_final)

        read, interval = self._polling(name)
        return follow.follow(read, new_lines, interval, rules)

    def _polling(self, name: str) -> tuple[ReadHistory, PollInterval]:
        interval = PollInterval(_QUICK_SECONDS, _SLOW_SECONDS)
        return lambda: self._history(name, LONG_RETRY), interval
