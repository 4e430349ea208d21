"""`trackside queue`: which jobs wait for this machine, or for the server's, and why."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.access import KeysElsewhere, access_keys
from trackside.cli.messages import print_message
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json, duration
from trackside.errors import MissingExtra, ServerError
from trackside.jobs.machine_resources import amount
from trackside.jobs.queue import Entry, LimitOf, no_limit
from trackside.jobs.queue_view import QueueView
from trackside.sdk.known_jobs import known_reader
from trackside.settings import Settings

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

COLUMNS = ("#", "JOB", "OWNER", "PRIORITY", "NEEDS", "FOR", "WHY")
NO_SERVER = "No server runs here: what waits is started once `trackside server` does."


@click.command(short_help="Show which jobs wait for the machine, and why.")
@click.option("--json", is_flag=True, help="Print JSON.")
def queue(json: bool) -> None:
    """Show the jobs that wait for this machine, in order, and why.

    Running jobs come first, with the resources that they use. Jobs of `trackside run` without a
    server never wait, but use resources that others wait for. With a server, by `trackside login`
    or TRACKSIDE_URL, it is that server's queue: jobs of all owners, whatever the rights of the key.

    \b
    Examples:
      trackside queue
      trackside queue --json | jq '.waiting[].why'
    """
    view = _view(known_reader())
    if json:
        print(as_json(_record(view, view.at)))
        return
    if view.running or view.waiting:
        print_table(COLUMNS, list(_rows(view, view.at)))
    else:
        print("Nothing runs, and nothing waits.")
    print(f"Free: {_free(view)}.")
    if not view.is_served:
        print(NO_SERVER)


def why_waiting(known: "JobReader", name: str) -> str:
    """For a Pending job: its position in the queue and what it waits for; empty if it has started
    meanwhile, or with an older server.
    """
    try:
        waiting = _view(known).waiting
    except ServerError:
        return ""
    for waiter in waiting:
        if waiter.entry.name == name:
            return f"{waiter.why} (number {waiter.position} of {len(waiting)} in the queue)."
    return ""


def _view(known: "JobReader") -> QueueView:
    return known.queue(None if known.is_at_server else _limits(known.settings))


def _limits(settings: Settings) -> LimitOf:
    """Read for the first queued job: usually there is none."""
    read = cache(_read_limits)
    return lambda who: read(settings)(who)


def _read_limits(settings: Settings) -> LimitOf:
    try:
        return access_keys(settings).limits(settings.jobs_per_key)
    except MissingExtra:
        return no_limit  # nor can there be a server that enforces them
    except KeysElsewhere as error:
        print_message(f"Note: limits of owners are left out. {error}")
        return no_limit


def _rows(view: QueueView, now: float) -> Iterator[list[Cell]]:
    for entry in view.running:
        yield _row("", entry, now, f"Runs: {entry.status}", "cyan")
    for waiter in view.waiting:
        yield _row(str(waiter.position), waiter.entry, now, waiter.why, "")


def _row(position: str, entry: Entry, now: float, why: str, style: str) -> list[Cell]:
    texts = [position, entry.name, entry.owner, str(entry.priority), str(entry.needs)]
    return [*map(Cell, texts), Cell(duration(now - entry.since)), Cell(why, style)]


def _free(view: QueueView) -> str:
    free, capacity = asdict(view.free), asdict(view.capacity)
    parts = [
        f"{max(free[what], 0):.4g} of {amount(what, capacity[what])}"
        for what in capacity
        if capacity[what]
    ]
    return ", ".join(parts)


def _record(view: QueueView, now: float) -> dict[str, Any]:
    return {
        "is_served": view.is_served,
        "capacity": asdict(view.capacity),
        "free": asdict(view.free),
        "running": [_entry_record(entry, now) for entry in view.running],
        "waiting": [
            {"position": waiter.position, **_entry_record(waiter.entry, now), "why": waiter.why}
            for waiter in view.waiting
        ],
    }


def _entry_record(entry: Entry, now: float) -> dict[str, Any]:
    return {**asdict(entry), "seconds": round(now - entry.since, 1)}
