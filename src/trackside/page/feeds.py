"""The feeds of live streams: the table of jobs, one job, points of curves, tensors, a log,
issues."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from trackside.errors import JobNotFound, NoTensors
from trackside.jobs.jobs import Jobs
from trackside.page.job_views import JobViews
from trackside.page.live import Event
from trackside.records.status import Status
from trackside.views.curves.series import CurveReader, CurveRef
from trackside.views.job.job_view import Job
from trackside.views.logs.log_pages import LogPage, LogPages
from trackside.views.table.job_row import KnownJob, Viewer
from trackside.views.table.job_table import JobTable
from trackside.views.tensors.open_trials import OpenTrials

_LINES_MOST = 1000
"""In one event."""
JOB_SECONDS = 1.0
"""How often a job's view is made anew at most: the page shows sentences there, not points."""
ROW_SECONDS = 3.0
"""The same when only numbers in its row have changed."""
OVER_SECONDS = 10.0
"""The same for a job that has ended: its rules may go on, or its tags be changed."""
_AGE = "seconds"
ISSUES_SECONDS = 1.0
"""How often all jobs are looked at for what issues are made of."""


class JobsFeed:
    """Rows of the table that have changed, and names of jobs that are gone."""

    def __init__(self, table: JobTable, viewer: Viewer, columns: Sequence[str]) -> None:
        self._table = table
        self._viewer = viewer
        self._columns = columns
        self._revision = _revision(table)

    def poll(self) -> Sequence[Event]:
        found = self._table.changed_since(self._revision, self._viewer, self._columns)
        if found.revision == self._revision:
            return []
        self._revision = found.revision
        event = {"revision": found.revision, "rows": found.rows, "gone": found.gone}
        return [("jobs", event)]


class IssueNews:
    """Whether issues may have changed, for all streams: a job has other findings, is new or gone,
    or somebody has said something about an issue."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._lock = Lock()
        self._looked = -math.inf
        self._revision = ""
        self._seen: dict[str, Any] | None = None
        self._count = 0

    def count(self) -> int:
        """Grows with each change."""
        with self._lock:
            if time.monotonic() - self._looked >= ISSUES_SECONDS:
                self._look()
                self._looked = time.monotonic()
            return self._count

    def said(self) -> None:
        """Somebody has said something about an issue."""
        with self._lock:
            self._count += 1

    def _look(self) -> None:
        jobs = self._table.jobs()
        if self._table.revision == self._revision:
            return
        self._revision = self._table.revision
        seen = {each.row.name: _told(each) for each in jobs}
        self._count += seen != self._seen
        self._seen = seen


class IssuesFeed:
    def __init__(self, news: IssueNews) -> None:
        self._news = news
        self._count = news.count()

    def poll(self) -> Sequence[Event]:
        count = self._news.count()
        if count == self._count:
            return []
        self._count = count
        return [("issues", {})]


class PointsFeed:
    def __init__(self, reader: CurveReader, refs: Sequence[CurveRef]) -> None:
        self._live = reader.live(refs)

    def poll(self) -> Sequence[Event]:
        found = self._live.poll()
        return [("points", {"items": [each.as_json() for each in found]})] if found else []


class TensorsFeed:
    """Says that a job has saved more tensors: the step up to which."""

    def __init__(self, jobs: Jobs, trials: OpenTrials, job: str) -> None:
        self._jobs = jobs
        self._trials = trials
        self._job = job
        self._last = self._saved()

    def poll(self) -> Sequence[Event]:
        last = self._saved()
        if last is None or last == self._last:
            return []
        self._last = last
        return [("tensors", {"job": self._job, "last_step": last})]

    def _saved(self) -> int | None:
        try:
            with self._trials.get(self._jobs.record(self._job)) as trial:
                return trial.step_table.last_step
        except NoTensors:
            return None


class LogFeed:
    """Lines from a given one on, and the one before it: a line that has grown is sent again."""

    def __init__(self, jobs: Jobs, pages: LogPages, job: str, host: str, first: int) -> None:
        self._jobs = jobs
        self._pages = pages
        self._job = job
        self._host = host
        self._next = max(1, first - 1)
        """The number of the last line that was sent, which may grow."""
        self._sent = ""
        """The text of that line."""
        self._attempt = 0
        self._revision = ""

    def poll(self) -> Sequence[Event]:
        page = self._page()
        if self._attempt and page.attempt != self._attempt:
            self._next, self._sent = 1, ""
            page = self._page()
        self._attempt = page.attempt
        if page.revision == self._revision:
            return []
        lines = [*enumerate(page.lines, page.first)]
        num_left = page.total - (page.first + len(lines) - 1)
        self._revision = page.revision if num_left <= 0 else ""
        new = [(number, line) for number, line in lines if self._is_new(number, line.text)]
        if not new:
            return []
        self._next, self._sent = new[-1][0], new[-1][1].text
        shown = [{"time": line.time, "text": line.text} for _, line in new]
        event = {"host": page.host, "attempt": page.attempt, "first": new[0][0], "lines": shown}
        return [("log", event)]

    def _page(self) -> LogPage:
        record = self._jobs.record(self._job)
        at = f"line:{self._next}"
        return self._pages.page(record, host=self._host, at=at, count=_LINES_MOST)

    def _is_new(self, number: int, text: str) -> bool:
        return number > self._next or (number == self._next and text != self._sent)


class JobFeed:
    """Sends a job's view when it has changed; when only its row has, less often. Says once that the
    job was deleted."""

    def __init__(
        self,
        views: JobViews,
        job: str,
        row: Callable[[str], Mapping[str, Any] | None],
        shown: Callable[[Job], Mapping[str, Any]],
    ) -> None:
        """`shown` is the view with what depends on who looks."""
        self._views = views
        self._job = job
        self._row = row
        self._shown = shown
        self._seen = views.get(job, JOB_SECONDS)
        self._row_seen = self._lasting_row()
        self._sent = time.monotonic()
        self._is_gone = False

    def poll(self) -> Sequence[Event]:
        try:
            return self._news()
        except JobNotFound:
            was_gone, self._is_gone = self._is_gone, True
            return [] if was_gone else [("gone", {"job": self._job})]

    def _news(self) -> Sequence[Event]:
        is_over = Status(self._seen.status).is_final
        view = self._views.get(self._job, OVER_SECONDS if is_over else JOB_SECONDS)
        row = self._lasting_row()
        is_due = time.monotonic() - self._sent >= ROW_SECONDS
        self._is_gone = False
        if view == self._seen and (row == self._row_seen or not is_due):
            return []
        self._seen, self._row_seen, self._sent = view, row, time.monotonic()
        return [("job", self._shown(view))]

    def _lasting_row(self) -> Mapping[str, Any]:
        """Without the duration, which the page counts itself."""
        return {name: value for name, value in (self._row(self._job) or {}).items() if name != _AGE}


def _revision(table: JobTable) -> str:
    table.jobs()  # looks at the index, if that is due
    return table.revision


def _told(job: KnownJob) -> tuple[Any, ...]:
    """What of a job issues are made of."""
    found = None if job.made is None else job.made.found
    return job.row.created, job.row.status, found
