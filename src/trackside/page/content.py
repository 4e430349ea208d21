"""What the page shows: the routes of its API, and the feeds of its live streams, over one set of
readers that all of them share."""

from collections.abc import Iterator

from trackside.jobs.jobs import Jobs
from trackside.page.access import Access, Person
from trackside.page.action_routes import action_routes
from trackside.page.call import Api, Query
from trackside.page.curve_routes import curve_routes
from trackside.page.feeds import (
    IssueNews,
    IssuesFeed,
    JobFeed,
    JobsFeed,
    LogFeed,
    PointsFeed,
    TensorsFeed,
)
from trackside.page.issue_routes import issue_routes
from trackside.page.job_routes import COLUMNS_MOST, JobRoutes
from trackside.page.job_views import JobViews
from trackside.page.live import Feed
from trackside.page.log_routes import log_routes
from trackside.page.problems import BadRequest
from trackside.page.setup_routes import setup_routes
from trackside.page.tensor_routes import tensor_routes
from trackside.views.curves.series import CurveReader, CurveRef
from trackside.views.logs.log_pages import LogPages
from trackside.views.logs.open_logs import OpenLogs
from trackside.views.problems.issues import Issues
from trackside.views.table.job_table import JobTable
from trackside.views.table.row_cache import RowCache
from trackside.views.tensors.open_trials import OpenTrials

LIVE_CURVES_MOST = 2000


class Content:
    def __init__(self, jobs: Jobs, access: Access) -> None:
        self._jobs = jobs
        self._access = access
        self._reader = CurveReader(jobs)
        self._logs = OpenLogs(jobs.settings.layout)
        self._pages = LogPages(self._logs)
        self._trials = OpenTrials(jobs.settings.layout)
        self._views = JobViews(jobs, self._reader, self._trials)
        self._table = JobTable(jobs, cache=RowCache(jobs.settings.layout.job_table))
        self._issues = Issues(jobs)
        self._news = IssueNews(self._table)
        self._job_routes = JobRoutes(access, self._table, self._views)

    def close(self) -> None:
        self._table.close()
        self._reader.close()

    def routes(self) -> Iterator[Api]:
        yield from self._job_routes.routes()
        yield from curve_routes(self._jobs, self._reader)
        yield from log_routes(self._jobs, self._reader, self._logs)
        yield from tensor_routes(self._jobs, self._trials)
        yield from setup_routes(self._jobs)
        yield from issue_routes(self._issues, self._table, self._news)
        yield from action_routes(self._jobs, self._table)

    def feeds(self, person: Person, query: Query) -> list[Feed]:
        """Of a live stream with these parameters."""
        job = query.text("job", most=100)
        found: list[Feed] = []
        if query.flag("jobs"):
            columns = query.names("columns", most=COLUMNS_MOST)
            found.append(JobsFeed(self._table, self._job_routes.viewer(person), columns))
        if query.flag("issues"):
            found.append(IssuesFeed(self._news))
        if job:
            shown = self._job_routes.shown_live(person)
            found.append(JobFeed(self._views, job, self._table.row, shown))
        if refs := _refs(query, job):
            found.append(PointsFeed(self._reader, refs))
        if job and query.flag("tensors"):
            found.append(TensorsFeed(self._jobs, self._trials, job))
        if job and (host := query.text("log", most=100)):
            first = query.integer("from", 1)
            found.append(LogFeed(self._jobs, self._pages, job, host, first))
        return found


def _refs(query: Query, job: str) -> list[CurveRef]:
    """ID of `job`, or JOB:ID."""
    found = []
    for each in query.names("curves", most=LIVE_CURVES_MOST):
        name, colon, identity = each.rpartition(":")
        if not colon and not job:
            raise BadRequest(f"curves has {each!r} without a job.", "Give JOB:ID, or job=JOB.")
        found.append(CurveRef(name or job, identity))
    return found
