"""Routes about issues: problems of several jobs in one, and what people say about them."""

from collections.abc import Iterator

from trackside.page.call import Answer, Api, Call
from trackside.page.feeds import IssueNews
from trackside.page.problems import BadRequest
from trackside.records.rights import Rights
from trackside.views.problems.issue_states import FIXED, MUTED, OPEN, REGRESSED, SETTABLE
from trackside.views.problems.issues import Issues
from trackside.views.table.job_table import JobTable

_STATES = (OPEN, REGRESSED, MUTED, FIXED)
_READ_SECONDS = 1.0
"""For jobs that were never read before: the page asks again for the rest."""


def issue_routes(issues: Issues, table: JobTable, news: IssueNews) -> Iterator[Api]:
    routes = _IssueRoutes(issues, table, news)
    yield Api("GET", "issues", routes.overview, is_heavy=True)
    yield Api("GET", "issues/{id}", routes.issue, is_heavy=True)
    yield Api("POST", "issues/{id}", routes.set_state, Rights.SUBMIT, is_heavy=True)


class _IssueRoutes:
    def __init__(self, issues: Issues, table: JobTable, news: IssueNews) -> None:
        self._issues = issues
        self._table = table
        self._news = news

    def overview(self, call: Call) -> Answer:
        text = call.query.text("q")
        names = {each.row.name for each in self._table.jobs(text)} if text.strip() else None
        states = call.query.names("state") or None
        for state in states or ():
            if state not in _STATES:
                known = ", ".join(_STATES)
                raise BadRequest(f"state has {state!r}; it should be some of {known}.")
        found = self._issues.overview(names=names, states=states, seconds=_READ_SECONDS)
        return found.to_json()

    def issue(self, call: Call) -> Answer:
        return self._issues.find(call.names["id"]).to_json()

    def set_state(self, call: Call) -> Answer:
        state = call.body.choice("state", SETTABLE)
        more_jobs = call.body.integer("more_jobs", 1, low=1)
        who = call.person.name
        issue = self._issues.set_state(call.names["id"], state, more_jobs=more_jobs, by=who)
        self._news.said()
        return issue.to_json()
