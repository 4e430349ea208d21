"""Routes about jobs: the table, and one job."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trackside.errors import JobNotFound
from trackside.page.access import Access, Person, may_change
from trackside.page.call import Answer, Api, Call
from trackside.page.job_views import JobViews
from trackside.views.job.job_view import Job
from trackside.views.table.job_row import Viewer
from trackside.views.table.job_table import JobTable, TableRequest

ROWS_MOST = 1000
COLUMNS_MOST = 200
_NO_EVIDENCE: dict[str, Any] = {
    "curves": [],
    "vitals": [],
    "heat": None,
    "log": None,
    "texts": False,
}
_NEW_SECONDS = 2.0
"""Within which a job that was just submitted is in the table."""


class JobRoutes:
    def __init__(self, access: Access, table: JobTable, views: JobViews) -> None:
        self._access = access
        self._table = table
        self._views = views

    def routes(self) -> Iterator[Api]:
        yield Api("GET", "jobs", self.table)
        yield Api("GET", "jobs/{name}", self.job)

    def table(self, call: Call) -> Answer:
        query = call.query
        request = TableRequest(
            query=query.text("q"),
            sort=query.text("sort", most=500) or "created",
            is_descending=query.flag("desc", default=True),
            offset=query.integer("offset", 0),
            limit=query.integer("limit", 100, low=1, high=ROWS_MOST),
            columns=query.names("columns", most=COLUMNS_MOST),
        )
        return self._table.find(request, self.viewer(call.person)).to_json()

    def job(self, call: Call) -> Answer:
        return self._shown(call.person, self._views.get(call.job))

    def viewer(self, person: Person) -> Viewer:
        return Viewer(lambda name, owner: may_change(self._access, person, owner))

    def shown_live(self, person: Person) -> Callable[[Job], Mapping[str, Any]]:
        """A job in a live event: without its evidence, which is fetched where it is shown."""

        def shown(view: Job) -> Mapping[str, Any]:
            whole = self._shown(person, view)
            causes = [{**each, "evidence": _NO_EVIDENCE} for each in whole["diagnoses"]]
            return {**whole, "diagnoses": causes}

        return shown

    def _shown(self, person: Person, view: Job) -> dict[str, Any]:
        deadline = time.monotonic() + _NEW_SECONDS
        while (row := self._table.row(view.name, self.viewer(person))) is None:
            if time.monotonic() > deadline:
                raise JobNotFound(view.name)  # it was deleted meanwhile
            time.sleep(0.1)
        return view.to_json(row)
