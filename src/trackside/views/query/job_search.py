"""Jobs that match a query, with the hyperparameters, tags and metrics it needs; `jobs` prints them.

Plain queries use only the index, or a server's listing. For hyperparameters and tags each job's
record is read, for metrics its curves too. A text in the query language is answered by the job
table.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from trackside.errors import TracksideError
from trackside.jobs.index import JobSummary
from trackside.quick_dataclass import dataclass
from trackside.texts.shown_names import shown_name, with_dashes

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

if TYPE_CHECKING:  # imported only to compare values: a plain list must be fast
    from trackside.jobs.details import JobDetails
    from trackside.views.query.search_conditions import Condition, Name, Value

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Jobs whose curves are read concurrently: with remote storage, that takes the time."""
_OF_ROW: dict[str, tuple[Callable[[JobSummary], str | float | None], bool]] = {
    "created": (lambda row: row.created, True),
    "name": (lambda row: shown_name(row.name), False),
    "status": (lambda row: row.status, False),
    "owner": (lambda row: row.owner or None, False),
    "ended": (lambda row: row.ended, True),
    "trained": (lambda row: _trained(row), True),
}
"""Columns of the list itself: the value, and whether the greatest comes first."""
SORTS = tuple(_OF_ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    text: str = ""
    """In the query language."""
    statuses: Sequence[str] = ()
    name_contains: str | None = None
    owner: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    conditions: "Sequence[Condition]" = ()
    columns: "Sequence[Name]" = ()
    """What else is to be shown."""
    sort: str = "created"
    is_reversed: bool = False
    limit: int = 20

    @property
    def names(self) -> "list[Name]":
        """What to read of each job besides the list itself."""
        query = [*(each.name for each in self.conditions), *self.columns]
        if self.sort not in SORTS:
            query.insert(len(self.conditions), _name(self.sort))
        return list(dict.fromkeys(query))

    @property
    def shown(self) -> "list[Name]":
        """One column per distinct text: `-p lr=0.1 --sort lr` adds one."""
        first: dict[str, Name] = {}
        for name in self.names:
            first.setdefault(name.text, name)
        return list(first.values())

    @property
    def is_plain(self) -> bool:
        """Whether the list alone is sufficient."""
        is_listed = self.sort == "created" and not self.is_reversed and len(self.statuses) < 2
        is_listed = is_listed and not self.text
        return is_listed and not self.conditions and not _needs_details(self.name_contains)


@dataclass(frozen=True, slots=True)
class Found:
    row: JobSummary
    values: "dict[Name, Value | None]" = field(default_factory=dict)


def find(known: "JobReader", query: Search) -> tuple[list[Found], int]:
    """Jobs to show, and how many more match; 1 for any number that was not counted."""
    if query.text:
        return _from_table(known, query)
    rows = known.list(
        status=query.statuses[0] if len(query.statuses) == 1 else None,
        name_contains=with_dashes(query.name_contains) if query.name_contains else None,
        owner=query.owner,
        created_after=query.created_after,
        created_before=query.created_before,
        limit=query.limit + 1 if query.is_plain else None,
    )
    rows = [row for row in rows if _is_listed(row, query)]
    if query.is_plain:
        rows, more = rows[: query.limit], len(rows[query.limit :])
        return list(_with_values(known, rows, query)), more
    found = [each for each in _with_values(known, rows, query) if _fits(each, query)]
    ordered = _sorted(found, query)
    return ordered[: query.limit], max(0, len(ordered) - query.limit)


def _from_table(known: "JobReader", query: Search) -> tuple[list[Found], int]:
    from trackside.views.table.searched_table import searched

    wanted = [
        Found(job.row, values)
        for job, values in searched(known, query.text, query.names)
        if _is_listed(job.row, query) and _is_of_time_and_owner(job.row, query)
    ]
    ordered = _sorted([each for each in wanted if _fits(each, query)], query)
    return ordered[: query.limit], max(0, len(ordered) - query.limit)


def _is_of_time_and_owner(row: JobSummary, query: Search) -> bool:
    after, before = query.created_after, query.created_before
    is_of_time = (after is None or row.created > after) and (before is None or row.created < before)
    return is_of_time and query.owner in (None, row.owner)


def _is_listed(row: JobSummary, query: Search) -> bool:
    if query.statuses and row.status not in query.statuses:
        return False
    text = query.name_contains or ""
    return text in shown_name(row.name) or text in row.name


def _needs_details(text: str | None) -> bool:
    """For names with dots and underscores the index knows only that there are some."""
    return text is not None and with_dashes(text) != text


def _fits(found: Found, query: Search) -> bool:
    return all(each.fits(found.values.get(each.name)) for each in query.conditions)


def _with_values(known: "JobReader", rows: Sequence[JobSummary], query: Search) -> Iterator[Found]:
    names = query.names
    if not names:
        yield from (Found(row) for row in rows)
        return
    by_name = {row.name: row for row in rows}
    # Cheap conditions first: most jobs then need no read of their curves.
    first = [each for each in query.conditions if each.name.kind in ("param", "tag")]
    candidates = [
        details
        for details in known.details(rows)
        if all(each.fits(_recorded(details, each.name)) for each in first)
    ]
    from concurrent.futures import ThreadPoolExecutor  # few lists need it

    with ThreadPoolExecutor(AT_ONCE) as pool:
        values = pool.map(lambda details: _values(details, names), candidates)
        for details, of_job in zip(candidates, values, strict=True):
            yield Found(by_name[details.name], of_job)


def _values(details: "JobDetails", names: "Iterable[Name]") -> "dict[Name, Value | None]":
    values = {name: _recorded(details, name) for name in names}
    missing = [
        name for name, value in values.items() if value is None and name.kind in ("", "metric")
    ]
    if missing:
        values.update(_of_curves(details, missing))
    for name in missing:
        if values[name] is None and not name.kind:
            values[name] = details.tags.get(name.text)
    return values


def _recorded(details: "JobDetails", name: "Name") -> "Value | None":
    """A hyperparameter, or an equivalent argument; a metric; a tag if requested."""
    from trackside.views.query.search_conditions import as_parameters, plain_text

    if name.kind == "tag":
        return details.tags.get(name.text)
    parameters = {**as_parameters(details.arguments), **details.hyperparameters}
    held = {_spelling(each): value for each, value in parameters.items()}
    found = held.get(_spelling(name.text)) if name.kind in ("", "param") else None
    if found is not None:
        return plain_text(found)
    return details.metrics.get(name.text) if name.kind in ("", "metric") else None


def _spelling(name: str) -> str:
    """`--batch-size` is what the script calls `batch_size`."""
    return name.replace("-", "_")


def _of_curves(details: "JobDetails", names: "Sequence[Name]") -> "dict[Name, Value | None]":
    from trackside.curves.curve_choice import last_value  # needs numpy, unlike any other list
    from trackside.curves.event_reader import read

    try:
        curves = read(details.curves)
    except (TracksideError, OSError) as error:
        logger.warning("The curves of %s cannot be read: %s", shown_name(details.name), error)
        return {}
    return {name: last_value(curves, name.text) for name in names}


def _sorted(found: list[Found], query: Search) -> list[Found]:
    """Jobs without the sort key come last, in either direction."""
    key, is_descending = _sorting(query)
    keyed = [(_finite(key(each)), each) for each in found]
    having = [each for each in keyed if each[0] is not None]
    having.sort(key=lambda each: _sortable(each[0]), reverse=is_descending != query.is_reversed)
    return [each for _, each in (*having, *(each for each in keyed if each[0] is None))]


def _sorting(query: Search) -> "tuple[Callable[[Found], Value | None], bool]":
    if query.sort in _OF_ROW:
        of_row, is_descending = _OF_ROW[query.sort]
        return lambda found: of_row(found.row), is_descending
    from trackside.curves.metric_direction import is_more_better

    name = _name(query.sort)
    return lambda found: found.values.get(name), is_more_better(name.text)


def _finite(value: "Value | None") -> "Value | None":
    """A NaN loss counts as missing."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _sortable(value: "Value | None") -> tuple[int, float, str]:
    """Numbers before texts: the two cannot be compared."""
    from trackside.views.query.search_conditions import as_number

    number = as_number(value) if value is not None else None
    return (1, 0.0, str(value)) if number is None else (0, number, "")


def _name(typed: str) -> "Name":
    from trackside.views.query.search_conditions import Name

    return Name.parse(typed)


def _trained(row: JobSummary) -> float | None:
    if row.training_started is None:
        return None
    return (row.ended or row.modified) - row.training_started
