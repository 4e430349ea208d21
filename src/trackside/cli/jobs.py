"""`trackside jobs`: which jobs there are."""

import sys
import time
from dataclasses import asdict

import click

from trackside.cli.tables import Cell, print_table, status_style
from trackside.cli.text import as_json, duration
from trackside.jobs.index import JobSummary
from trackside.sdk.known_jobs import known_jobs
from trackside.status import Status

STATUSES = [status.value for status in Status]
COLUMNS = ("NAME", "STATUS", "AGE", "TRAINED", "OUTPUT")
SPARE = ("OUTPUT", "TRAINED", "AGE")
"""`trackside show` has them."""


@click.command
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status], case_sensitive=False),
    help="Only jobs with this status.",
)
@click.option("--name", "name_contains", metavar="TEXT", help="Only names with this in them.")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most; 20.")
@click.option("--json", is_flag=True, help="Print JSON.")
def jobs(status: str | None, name_contains: str | None, limit: int, json: bool) -> None:
    """List jobs, newest first.

    \b
    Examples:
      trackside jobs
      trackside jobs --status Failed --limit 5
      trackside jobs --json | jq '.[].name'
    """
    found = known_jobs().list(status=status, name_contains=name_contains, limit=limit + 1)
    is_cut, found = len(found) > limit, found[:limit]
    if json:
        print(as_json([asdict(job) for job in found]))
    elif not found:
        print(_none(status, name_contains))
    else:
        now = time.time()
        print_table(COLUMNS, [_row(job, now) for job in found], spare=SPARE)
        if is_cut:
            shown = "This is the newest" if limit == 1 else f"These are the newest {limit}"
            print(f"{shown}; --limit {5 * limit} shows more.", file=sys.stderr)


def _none(status: str | None, name_contains: str | None) -> str:
    if not (status or name_contains):
        return "No jobs. `trackside run SCRIPT` starts one."
    named = f" with {name_contains!r} in its name" if name_contains else ""
    return f"No job{named} is {status}." if status else f"There is no job{named}."


def _row(job: JobSummary, now: float) -> list[Cell]:
    # Between Starting and Completed the finer word says more.
    shown = job.secondary if not job.is_final or job.status == Status.STOPPED else job.status
    begun = job.training_started
    return [
        Cell(job.name),
        Cell(shown, status_style(job.status)),
        Cell(duration(now - job.created)),
        Cell("" if begun is None else duration((job.ended or now) - begun)),
        Cell(job.output),
    ]
