"""Search over training jobs: `search_expression` has the expression's logic, this finds and pages.

Jobs are read in the requested order, and opened only when the expression needs more than the index
has.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from trackside.api import tokens
from trackside.api.budget import Budget
from trackside.api.json_service import OperationCall, Response
from trackside.api.ownership import shown_to
from trackside.api.sagemaker_responses import OWN, described, summary
from trackside.api.search_expression import Expression, value_at
from trackside.api.validation import invalid, parsed
from trackside.errors import JobNotFound
from trackside.jobs.index import JobSummary, Order, Page
from trackside.jobs.jobs import Jobs
from trackside.records.members import member

_AT_ONCE = 100
_MOST_KEPT = 16
MOST_SORTED = 5000
"""Jobs, for a search that is sorted by what the index does not know."""
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
    def __init__(self, jobs: Jobs, budget: Callable[[], Budget] = Budget) -> None:
        self._jobs = jobs
        self._budget = budget
        """Of each call, in jobs that it reads."""
        self._sorted_before = SortedBefore()

    def search(self, call: OperationCall) -> Response:
        given = {key: value for key, value in call.params.items() if key in _MEMBERS}
        searching = parsed(Searching, given)
        if searching.resource != "TrainingJob":
            raise invalid(f"Search on {searching.resource!r} is not offered here: TrainingJob is.")
        expression = Expression.parse(call.params.get("SearchExpression") or {})
        order = _ORDERS.get(searching.sort_by)
        form = (str, int) if order is None else tokens.key_form(order)
        position = (
            tokens.position_in(searching.token, call.params, form) if searching.token else None
        )
        if order is not None:
            return self._walked(call, searching, expression, position)
        return self._sorted(call, searching, expression, position)

    def _walked(
        self, call: OperationCall, searching: Searching, expression: Expression, after: Any
    ) -> dict[str, Any]:
        """A page may be short, and even empty, with a token that leads on."""
        order = _ORDERS[searching.sort_by]
        page = Page(order=order, descending=searching.is_descending, limit=_AT_ONCE)
        if after is not None:
            page = replace(page, after=tuple(after))
        budget = self._budget()
        found: list[dict[str, Any]] = []
        last: JobSummary | None = None
        for row, job in self._descriptions(call, expression, page):
            is_full = job is not None and len(found) == searching.max_results
            if last is not None and (is_full or budget.is_spent):
                return {"Results": found, "NextToken": tokens.token(call.params, order.key(last))}
            if job is not None:
                found.append({"TrainingJob": job})
            last = row
            budget.spend()
        return {"Results": found}

    def _sorted(
        self, call: OperationCall, searching: Searching, expression: Expression, position: Any
    ) -> dict[str, Any]:
        """By members that the index does not have: all matching jobs are read, once for all
        pages."""
        number, skip = position or ("", 0)
        names = self._sorted_before.get(number)
        if names is None:
            names = self._names_sorted(call, searching, expression)
            number = self._sorted_before.keep(names)
        end = skip + searching.max_results
        jobs = (self._job(name, call) for name in names[skip:end])
        response: dict[str, Any] = {"Results": [{"TrainingJob": job} for job in jobs if job]}
        if end < len(names):
            response["NextToken"] = tokens.token(call.params, [number, end])
        return response

    def _names_sorted(
        self, call: OperationCall, searching: Searching, expression: Expression
    ) -> Sequence[str]:
        """Jobs without the sort key come last."""
        values: list[tuple[Any, str]] = []
        descriptions = self._descriptions(call, expression, Page(limit=_AT_ONCE))
        for number, (row, job) in enumerate(descriptions):
            if number == MOST_SORTED:
                raise invalid(
                    f"Sorting by {searching.sort_by!r} reads every job, and there are "
                    f"more than {MOST_SORTED:,}. Sort by one of {', '.join(_ORDERS)}."
                )
            if job is not None:
                values.append((value_at(job, searching.sort_by), row.name))
        having = [each for each in values if each[0] is not None]
        having.sort(key=lambda each: _sortable(each[0]))
        if searching.is_descending:
            having.reverse()
        return [name for _, name in (*having, *(each for each in values if each[0] is None))]

    def _descriptions(
        self, call: OperationCall, expression: Expression, page: Page
    ) -> Iterator[tuple[JobSummary, dict[str, Any] | None]]:
        """Every job in the order of the page; None for one that does not fit."""
        by_index = expression.names <= _IN_INDEX
        while rows := self._jobs.page(page):
            for row in rows:
                if by_index and not expression.matches(summary(row, call.region)):
                    yield row, None
                    continue
                job = self._job(row.name, call)
                yield row, job if job is not None and expression.matches(job) else None
            page = replace(page, after=page.order.key(rows[-1]))

    def _job(self, name: str, call: OperationCall) -> dict[str, Any] | None:
        try:
            with_own = bool(call.params.get(OWN))
            description = described(
                self._jobs.describe(name, region=call.region), with_own=with_own
            )
            job = shown_to(
                call.caller, name, description, self._jobs
            )  # secrets cannot be searched for
            tags = self._jobs.tags(name)
        except JobNotFound:  # deleted since the page was read
            return None
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        return {**job, "Tags": listed} if listed else job


class SortedBefore:
    """The names of the latest sorted searches, so that their next pages need not read every job.
    Thread-safe. What is no longer cached is sorted again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Sequence[str]] = OrderedDict()
        self._lock = Lock()

    def keep(self, names: Sequence[str]) -> str:
        number = secrets.token_hex(8)
        with self._lock:
            self._kept[number] = names
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return number

    def get(self, number: str) -> Sequence[str] | None:
        with self._lock:
            return self._kept.get(number)


_MEMBERS = ("Resource", "SortBy", "SortOrder", "MaxResults", "NextToken", OWN)


def _sortable(value: Any) -> tuple[int, Any]:
    """Numbers before texts: they cannot be compared with each other."""
    return (0, value) if isinstance(value, int | float) else (1, str(value))
