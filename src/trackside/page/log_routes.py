"""Routes about logs: a part of one, and the search over all of them."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import Any

from trackside.jobs.jobs import Jobs
from trackside.page.call import Answer, Api, Call, Lines
from trackside.page.problems import TooBusy
from trackside.records.layout import FIRST_HOST
from trackside.views.curves.series import CurveReader
from trackside.views.job.machine import time_of_step
from trackside.views.logs.log_pages import MOST_LINES, LogPages
from trackside.views.logs.log_search import LogSearch, RunningSearch
from trackside.views.logs.open_logs import OpenLogs

SEARCHES_OF_PERSON = 2
"""At a time: a search may take a minute of a processor."""
_SEARCHES = 16
_HITS_MOST = 100_000


def log_routes(jobs: Jobs, reader: CurveReader, logs: OpenLogs) -> Iterator[Api]:
    routes = _LogRoutes(jobs, reader, logs)
    yield Api("GET", "jobs/{name}/log", routes.page)
    yield Api("GET", "jobs/{name}/log/search", routes.search, is_heavy=True)


class _LogRoutes:
    def __init__(self, jobs: Jobs, reader: CurveReader, logs: OpenLogs) -> None:
        self._jobs = jobs
        self._reader = reader
        self._pages = LogPages(logs)
        self._search = LogSearch(logs, most_at_once=_SEARCHES)
        self._lock = Lock()
        self._num_running: Counter[str] = Counter()

    def page(self, call: Call) -> Answer:
        query = call.query
        return self._pages.page(
            self._jobs.record(call.job),
            host=query.text("host") or FIRST_HOST,
            attempt=query.integer("attempt", 0) or None,
            at=query.text("at", most=100) or "tail",
            count=query.integer("count", 500, low=1, high=MOST_LINES),
            time_of_step=partial(time_of_step, self._reader, call.job),
        ).as_json()

    def search(self, call: Call) -> Answer:
        query, who = call.query, call.person.name
        self._begin(who)
        try:
            search = self._search.search(
                self._jobs.record(call.job),
                query.text("q"),
                host=query.text("host") or None,
                attempt=query.integer("attempt", 0) or None,
                first_line=query.integer("from", 1, low=1),
                most=query.integer("most", 1000, low=1, high=_HITS_MOST),
            )
        except BaseException:
            self._end(who)
            raise
        hits = _Hits(search, lambda: self._end(who))
        return Lines(hits, search.cancel, hits.close)

    def _begin(self, who: str) -> None:
        with self._lock:
            if self._num_running[who] >= SEARCHES_OF_PERSON:
                raise TooBusy(
                    f"{SEARCHES_OF_PERSON} of your searches are running.", "Wait for one to end."
                )
            self._num_running[who] += 1

    def _end(self, who: str) -> None:
        with self._lock:
            self._num_running[who] -= 1


class _Hits(Iterator[dict[str, Any]]):
    """A search whose end is counted once."""

    def __init__(self, search: RunningSearch, ended: Callable[[], None]) -> None:
        self._search = search
        self._ended: Callable[[], None] | None = ended

    def __next__(self) -> dict[str, Any]:
        return next(self._search).as_json()

    def close(self) -> None:
        self._search.close()
        if self._ended is not None:
            self._ended()
            self._ended = None
