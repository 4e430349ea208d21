"""`trackside jobs`: which jobs there are."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

import click

from trackside.cli.tables import Cell, print_table, print_text, status_style
from trackside.cli.text import as_json, duration
from trackside.jobs.index import JobSummary
from trackside.sdk.known_jobs import known_jobs
from trackside.status import Status

STATUSES = [status.value for status in Status]
COLUMNS = ("NAME", "STATUS", "OWNER", "AGE", "TRAINED", "OUTPUT")
SPARE = ("OUTPUT", "TRAINED", "AGE", "OWNER")
"""`trackside show` has them."""


@click.command
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status], case_sensitive=False),
    help="Only jobs with this status.",
)
@click.option("--name", "name_contains", metavar="TEXT", help="Only names with this in them.")
@click.option("--owner", metavar="NAME", help="Only jobs of this owner.")
@click.option("--mine", is_flag=True, help="Only jobs that belong to you.")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most; 20.")
@click.option("--json", is_flag=True, help="Print JSON.")
def jobs(
    status: str | None,
    name_contains: str | None,
    owner: str | None,
    mine: bool,
    limit: int,
    json: bool,
) -> None:
    """List jobs, newest first.

    A job belongs to the label of the access key that submitted it or, without a server, to a user
    of this machine, as local:USER. Owners are shown at a server, and where there are several.

    \b
    Examples:
      trackside jobs
      trackside jobs --status Failed --limit 5
      trackside jobs --mine
      trackside jobs --json | jq '.[].name'
    """
    if owner and mine:
        raise click.UsageError("--owner and --mine cannot be given together.")
    known = known_jobs()
    owner = known.owner if mine else owner
    found = known.list(status=status, name_contains=name_contains, owner=owner, limit=limit + 1)
    is_cut, found = len(found) > limit, found[:limit]
    if json:
        print(as_json([{**asdict(job), "owner": job.owner or None} for job in found]))
    elif not found:
        print(_none(status, name_contains, owner))
    else:
        owners = {job.owner for job in found if job.owner}
        _print(found, with_owner=known.is_at_server or len(owners) > 1)
        if any(not job.is_final for job in found) and (trouble := known.disk_trouble):
            print_text(trouble, stderr=True)
        if is_cut:
            shown = "This is the newest" if limit == 1 else f"These are the newest {limit}"
            print(f"{shown}; --limit {5 * limit} shows more.", file=sys.stderr)


def _print(found: Sequence[JobSummary], *, with_owner: bool) -> None:
    now = time.time()
    columns = [name for name in COLUMNS if with_owner or name != "OWNER"]
    rows = [dict(zip(COLUMNS, _row(job, now), strict=True)) for job in found]
    cells = [[row[name] for name in columns] for row in rows]
    print_table(columns, cells, spare=[name for name in SPARE if name in columns])


def _none(status: str | None, name_contains: str | None, owner: str | None) -> str:
    if not (status or name_contains or owner):
        return "No jobs. `trackside run SCRIPT` starts one."
    named = f" with {name_contains!r} in its name" if name_contains else ""
    named += f" of {owner!r}" if owner else ""
    return f"No job{named} is {status}." if status else f"There is no job{named}."


def _row(job: JobSummary, now: float) -> list[Cell]:
    # Between Starting and Completed the finer word says more.
    shown = job.secondary if not job.is_final or job.status == Status.STOPPED else job.status
    begun = job.training_started
    return [
        Cell(job.name),
        Cell(shown, status_style(job.status)),
        Cell(job.owner or ""),
        Cell(duration(now - job.created)),
        Cell("" if begun is None else duration((job.ended or now) - begun)),
        Cell(job.output),
    ]
