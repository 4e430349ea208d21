"""`trackside gc`: frees disk of what jobs that have ended left on this machine."""

import time

import click

from trackside.cli.tables import Cell, print_table
from trackside.cli.text import duration, size
from trackside.jobs.retention import Item, Keep
from trackside.sdk.known_jobs import jobs_of_this_machine


@click.command(short_help="Free disk of what ended jobs left in TRACKSIDE_HOME.")
@click.option(
    "--keep",
    metavar="AGE,SIZE",
    help="What stays, such as 90d,200GB, 12h or 50GB; TRACKSIDE_KEEP when not given.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def gc(keep: str | None, dry_run: bool) -> None:
    """Remove, of jobs that have ended, what is older than an age or does not fit a size.

    Working files first, then overlays of packages and job folders, whose record stays in storage.
    Only when a size is still exceeded, the data of the oldest jobs in embedded buckets. Without an
    age and a size, only what killed processes left. Nothing outside TRACKSIDE_HOME is touched.

    \b
    Examples:
      trackside gc --keep 90d --dry-run
      trackside gc --keep 90d,200GB
    """
    known = jobs_of_this_machine("Freeing the disk")
    limits = Keep.parse(known.settings.keep) if keep is None else Keep.parse(keep, "--keep")
    disk = known.disk
    items = disk.find(limits)
    if not dry_run:
        items = [item for item in items if disk.remove(item)]
    if not items:
        print("Nothing to remove.")
        return
    _print(items)
    total = size(sum(item.size_bytes for item in items))
    print(f"{total} would be freed." if dry_run else f"{total} freed.")


def _print(items: list[Item]) -> None:
    now = time.time()
    rows = []
    for item in items:
        age = duration(now - item.last_used)
        cells = (str(item.kind), age, size(item.size_bytes), item.name)
        rows.append([Cell(text) for text in cells])
    print_table(("KIND", "AGE", "SIZE", "NAME"), rows, numbers=("AGE", "SIZE"))
