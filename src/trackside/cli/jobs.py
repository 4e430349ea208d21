"""`trackside jobs`: lists jobs; `job_search` filters and sorts them."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.tables import Cell, print_table, print_text, status_style
from trackside.cli.text import as_json, duration
from trackside.errors import InputError
from trackside.jobs.index import JobSummary
from trackside.records.status import Status
from trackside.sdk.known_jobs import known_reader
from trackside.texts.secret_names import hidden
from trackside.texts.shown_names import shown_name
from trackside.views.query.job_search import SORTS, Found, Search, find

if TYPE_CHECKING:
    from trackside.views.query.search_conditions import Condition, Name, Value

RUNNING = "Running"
"""The common word for `InProgress`."""
STATUSES = [*(status.value for status in Status), RUNNING]
SPARE = ("OUTPUT", "TRAINED", "AGE", "OWNER")
"""`trackside show` has them."""
_TIME = "TIME"


def _statuses(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    meant = (Status.IN_PROGRESS.value if each == RUNNING else each for each in given)
    return tuple(dict.fromkeys(meant))


def _conditions(kind: str = "") -> Callable[..., "list[Condition]"]:
    """A callback; the parser is imported only if needed."""

    def parse(
        ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
    ) -> "list[Condition]":
        if not given:
            return []
        from trackside.views.query.search_conditions import parse_condition, parse_of_kind

        if kind:
            return parse_of_kind(kind, given)
        try:
            return [parse_condition(text) for text in given]
        except InputError as error:
            raise click.BadParameter(str(error), ctx, option) from None

    return parse


def _moment(ctx: click.Context, option: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    from datetime import datetime

    from trackside.views.query.search_conditions import parse_moment

    try:
        return parse_moment(given, datetime.now()).timestamp()
    except InputError as error:
        raise click.BadParameter(str(error), ctx, option) from None


def _names(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> "list[Name]":
    if not given:
        return []
    from trackside.views.query.search_conditions import Name

    return [Name.parse(each) for each in given]


@click.command
@click.argument("query", nargs=-1)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(STATUSES, case_sensitive=False),
    multiple=True,
    callback=_statuses,
    help="Only jobs with this status; may be repeated.",
)
@click.option("--name", "name_contains", metavar="TEXT", help="Only jobs whose name contains this.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    callback=_conditions("tag"),
    metavar="NAME[=VALUE]",
    help="Only jobs with this tag; may be repeated.",
)
@click.option(
    "-p",
    "--hyperparameter",
    "parameters",
    multiple=True,
    callback=_conditions("param"),
    metavar="NAME[=VALUE]",
    help="Only jobs with this hyperparameter, or argument; may be repeated.",
)
@click.option(
    "--where",
    multiple=True,
    callback=_conditions(),
    metavar="CONDITION",
    help="Only jobs that match, as 'lr>0.01' or 'val_loss<=0.3'; may be repeated.",
)
@click.option("--owner", metavar="NAME", help="Only jobs of this owner.")
@click.option("--mine", is_flag=True, help="Only jobs that belong to you.")
@click.option(
    "--since",
    callback=_moment,
    metavar=_TIME,
    help="Only jobs created since: 30min, 12h, 2d ago, or a date.",
)
@click.option("--before", callback=_moment, metavar=_TIME, help="Only jobs created before.")
@click.option(
    "--sort",
    metavar="KEY",
    default="created",
    help=f"One of {', '.join(SORTS)}, or a metric or hyperparameter; the best metric first.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "-c",
    "--column",
    "columns",
    multiple=True,
    callback=_names,
    metavar="NAME",
    help="Also show this metric, hyperparameter or tag; may be repeated.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    help="How many at most; by default 20.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def jobs(
    query: tuple[str, ...],
    statuses: tuple[str, ...],
    name_contains: str | None,
    tags: "list[Condition]",
    parameters: "list[Condition]",
    where: "list[Condition]",
    owner: str | None,
    mine: bool,
    since: float | None,
    before: float | None,
    sort: str,
    reverse: bool,
    columns: "list[Name]",
    limit: int,
    json: bool,
) -> None:
    """List jobs, newest first. Filter them by their settings and results.

    QUERY is in the language of the page: words of the name, status:failed, lr>1e-3, name~/bert/,
    tag:x, is:live, findings>0, created>2d, joined by blanks, or, not and parentheses.

    A name in --where, --sort and --column is a hyperparameter, a metric or a tag, the first of
    these that a job has; param.NAME, metric.NAME and tag.NAME choose one. A metric is compared by
    its last value. What jobs are filtered by is shown as a column.

    A job belongs to the label of the access key that submitted it or, without a server, to a user
    of this machine, as local:USER. Owners are shown with a server, and where there are several.

    \b
    Examples:
      trackside jobs 'is:live findings>0 or status:failed created>2d'
      trackside jobs --status failed --since 2d
      trackside jobs --tag team=vision -p optimizer=adam --sort val_loss
      trackside jobs --where 'lr>0.01' --where 'val_acc>=0.9' --column epochs
      trackside jobs --json | jq '.[].name'
    """
    if owner and mine:
        raise click.UsageError("--owner and --mine cannot be given together.")
    known = known_reader()
    text = " ".join(query)
    columns = [*_names_in(text), *columns]
    search = Search(
        text=text,
        statuses=statuses,
        name_contains=name_contains,
        owner=known.owner if mine else owner,
        created_after=since,
        created_before=before,
        conditions=[*tags, *parameters, *where],
        columns=columns,
        sort=sort,
        is_reversed=reverse,
        limit=limit,
    )
    found, more = find(known, search)
    if json:
        print(as_json([_as_json(each, search.shown) for each in found]))
    elif not found:
        print_text(_none(search))
    else:
        owners = {each.row.owner for each in found if each.row.owner}
        with_owner = known.is_at_server or len(owners) > 1 or sort == "owner"
        _print(found, search.shown, with_owner=with_owner)
        if any(not each.row.is_final for each in found) and (trouble := known.disk_trouble):
            print_text(trouble, stderr=True)
        if more:
            print(_cut(search, more), file=sys.stderr)


def _names_in(text: str) -> "list[Name]":
    """What jobs are searched by is shown."""
    if not text:
        return []
    from trackside.views.query.query import parse
    from trackside.views.table.searched_table import shown_names

    return shown_names(parse(text))


def _cut(query: Search, more: int) -> str:
    limit = query.limit
    way_out = f"--limit {5 * limit} shows more."
    if query.is_plain:
        shown = "This is the newest" if limit == 1 else f"These are the newest {limit}"
        return f"{shown}; {way_out}"
    shown = "This is the first" if limit == 1 else f"These are the first {limit}"
    return f"{shown} of {limit + more}; {way_out}"


def _as_json(found: Found, names: "Sequence[Name]") -> dict[str, Any]:
    row = {
        **asdict(found.row),
        "name": shown_name(found.row.name),
        "owner": found.row.owner or None,
    }
    row["training_job_name"] = found.row.name
    if names:
        row["values"] = {name.text: _hidden(name, found.values.get(name)) for name in names}
    return row


def _print(found: Sequence[Found], names: "Sequence[Name]", *, with_owner: bool) -> None:
    now = time.time()
    # Columns are known by their title, which another may have.
    titles = [name.text for name in names]
    columns = ["NAME", "STATUS", *(["OWNER"] if with_owner else []), *titles]
    columns += ["AGE", "TRAINED", "OUTPUT"]
    rows = []
    for each in found:
        start, end = _of_row(each.row, now)
        owner = [Cell(each.row.owner or "")] if with_owner else []
        shown = [Cell(_shown(name, each.values.get(name))) for name in names]
        rows.append([*start, *owner, *shown, *end])
    print_table(columns, rows, numbers=titles, spare=[name for name in SPARE if name in columns])


def _of_row(job: JobSummary, now: float) -> tuple[list[Cell], list[Cell]]:
    # Between Starting and Completed the secondary status says more.
    shown = job.secondary if not job.is_final or job.status == Status.STOPPED else job.status
    begun = job.training_started
    return (
        [Cell(shown_name(job.name)), Cell(shown, status_style(job.status))],
        [
            Cell(duration(now - job.created)),
            Cell("" if begun is None else duration((job.ended or now) - begun)),
            Cell(job.output),
        ],
    )


def _shown(name: "Name", value: "Value | None") -> str:
    reported = _hidden(name, value)
    return f"{reported:.6g}" if isinstance(reported, float) else reported or ""


def _hidden(name: "Name", value: "Value | None") -> "Value | None":
    return hidden(name.text, value) if isinstance(value, str) else value


def _none(query: Search) -> str:
    narrowed = [
        f"with {query.name_contains!r} in its name" if query.name_contains else "",
        f"of {query.owner!r}" if query.owner else "",
        "of that time" if query.created_after or query.created_before else "",
    ]
    if query.text:
        narrowed.append(f"that matches {query.text!r}")
    if query.conditions:
        texts = (f"{each.name.text}{each.sign}{each.value}" for each in query.conditions)
        narrowed.append(f"with {' and '.join(texts)}")
    named = "".join(f" {text}" for text in narrowed if text)
    if query.statuses:
        return f"No job{named} is {' or '.join(query.statuses)}."
    return f"There is no job{named}." if named else "No jobs. `trackside run SCRIPT` starts one."
