"""Jobs that match a text in the query language, for a caller that asks once: reads what the query
needs, and no more.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.views.query.query import Query, parse
from trackside.views.query.query_fields import FIELD
from trackside.views.query.search_conditions import Name, Value
from trackside.views.table.job_row import values_of
from trackside.views.table.job_table import JobTable
from trackside.views.table.row_cache import RowCache

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader
    from trackside.views.table.job_row import KnownJob

_IN_INDEX = {"name", "status", "owner", "created", "started", "ended", "seconds", "age", "attempt"}
_GIVEN = {"hosts", "tag", "note"}
"""Fields for which a job's record is sufficient."""


def shown_names(query: Query) -> list[Name]:
    """What of it is worth a column."""
    return [name for name in query.names if name.kind != FIELD]


def searched(
    known: "JobReader", text: str, columns: Sequence[Name]
) -> "Iterator[tuple[KnownJob, dict[Name, Value | None]]]":
    """Newest first, with the values of the columns."""
    query = parse(text)
    cache = None if known.is_at_server else RowCache(known.settings.layout.job_table)
    table = JobTable(known, cache=cache, is_read_on_demand=True)
    names = [*query.names, *columns]
    if not all(name.kind == FIELD and name.text in _IN_INDEX for name in names):
        table.read_all(needs_made=False)
    if any(_needs_curves(table, name) for name in names):
        table.read_all()
    now = time.time()
    for job in table.jobs(text):
        values = {name: next(iter(values_of(job, name, now)), None) for name in columns}
        yield job, values


def _needs_curves(table: JobTable, name: Name) -> bool:
    """A name without a kind is a metric's if some job has no such hyperparameter."""
    if name.kind == FIELD:
        return name.text not in _IN_INDEX | _GIVEN
    if name.kind:
        return name.kind == "metric"
    return not table.all_have(Name(name.text, "param"))
