"""Search over training jobs: the expression's logic is `search_expression`'s, this finds and pages.

Jobs are gone through in the order asked for, and opened only when the expression needs more than
the index knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trackside.api import tokens
from trackside.api.json_service import Answer, Ask
from trackside.api.sagemaker_answers import OWN, described, summary
from trackside.api.search_expression import Expression, value_at
from trackside.api.validation import invalid, parsed
from trackside.errors import JobNotFound
from trackside.jobs.index import JobSummary, Order, Page
from trackside.jobs.jobs import Jobs
from trackside.members import member

_AT_ONCE = 100
_ORDERS = {
    "TrainingJobName": Order.NAME,
    "CreationTime": Order.CREATED,
    "LastModifiedTime": Order.MODIFIED,
    "TrainingJobStatus": Order.STATUS,
}
_IN_INDEX = frozenset({*_ORDERS, "SecondaryStatus", "TrainingEndTime"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    resource: str = member("Resource")
    sort_by: str = member("SortBy", default="LastModifiedTime", least=1, most=255)
    sort_order: str = member("SortOrder", default="Descending", choices=("Ascending", "Descending"))
    max_results: int = member("MaxResults", int, default=10, least=1, most=100)
    token: str | None = member("NextToken", default=None, most=8192)
    with_own: bool = member("Trackside", bool, default=False)

    @property
    def is_descending(self) -> bool:
        return self.sort_order == "Descending"


class JobSearch:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def search(self, ask: Ask) -> Answer:
        given = {key: value for key, value in ask.given.items() if key in _MEMBERS}
        searching = parsed(Searching, given)
        if searching.resource != "TrainingJob":
            raise invalid(f"Search on {searching.resource!r} is not offered here: TrainingJob is.")
        expression = Expression.parse(ask.given.get("SearchExpression") or {})
        order = _ORDERS.get(searching.sort_by)
        form = int if order is None else tokens.key_form(order)
        place = tokens.place_of(searching.token, ask.given, form) if searching.token else None
        if order is not None:
            return self._walked(ask, searching, expression, place)
        return self._sorted(ask, searching, expression, place or 0)

    def _walked(
        self, ask: Ask, searching: Searching, expression: Expression, after: Any
    ) -> dict[str, Any]:
        order = _ORDERS[searching.sort_by]
        page = Page(order=order, descending=searching.is_descending, limit=_AT_ONCE)
        if after is not None:
            page = replace(page, after=tuple(after))
        found: list[dict[str, Any]] = []
        last: JobSummary | None = None
        for row, job in self._matches(ask, expression, page):
            if len(found) == searching.max_results:
                assert last is not None
                token = tokens.token(ask.given, order.key(last))
                return {"Results": found, "NextToken": token}
            found.append({"TrainingJob": job})
            last = row
        return {"Results": found}

    def _sorted(
        self, ask: Ask, searching: Searching, expression: Expression, skip: int
    ) -> dict[str, Any]:
        """By what the index does not know: all that match are looked at. Those without it last."""
        matches = [job for _, job in self._matches(ask, expression, Page(limit=_AT_ONCE))]
        having = [job for job in matches if value_at(job, searching.sort_by) is not None]
        without = [job for job in matches if value_at(job, searching.sort_by) is None]
        having.sort(key=lambda job: _sortable(value_at(job, searching.sort_by)))
        if searching.is_descending:
            having.reverse()
        end = skip + searching.max_results
        ordered = [*having, *without]
        answer: dict[str, Any] = {"Results": [{"TrainingJob": job} for job in ordered[skip:end]]}
        if end < len(ordered):
            answer["NextToken"] = tokens.token(ask.given, end)
        return answer

    def _matches(
        self, ask: Ask, expression: Expression, page: Page
    ) -> Iterator[tuple[JobSummary, dict[str, Any]]]:
        by_index = expression.names <= _IN_INDEX
        while rows := self._jobs.page(page):
            for row in rows:
                if by_index and not expression.fits(summary(row, ask.region)):
                    continue
                job = self._job(row.name, ask)
                if job is not None and expression.fits(job):
                    yield row, job
            page = replace(page, after=page.order.key(rows[-1]))

    def _job(self, name: str, ask: Ask) -> dict[str, Any] | None:
        try:
            with_own = bool(ask.given.get(OWN))
            job = described(self._jobs.describe(name, region=ask.region), with_own=with_own)
            tags = self._jobs.tags(name)
        except JobNotFound:  # deleted since the page was read
            return None
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        return {**job, "Tags": listed} if listed else job


_MEMBERS = ("Resource", "SortBy", "SortOrder", "MaxResults", "NextToken", OWN)


def _sortable(value: Any) -> tuple[int, Any]:
    """Numbers before texts: they cannot be compared with each other."""
    return (0, value) if isinstance(value, int | float) else (1, str(value))
