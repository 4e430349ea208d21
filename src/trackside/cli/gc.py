"""`trackside gc`: frees disk space that finished jobs use on this machine."""

import time

import click

from trackside.cli.access import KeysElsewhere, access_keys
from trackside.cli.messages import print_message
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import duration, size
from trackside.errors import MissingExtra
from trackside.jobs.garbage_collection import Disk
from trackside.jobs.retention import Item, Keep
from trackside.sdk.known_jobs import jobs_of_this_machine
from trackside.settings import Settings


@click.command(short_help="Remove old files of finished jobs from TRACKSIDE_HOME.")
@click.option(
    "--keep",
    metavar="AGE,SIZE",
    help="What to keep, such as 90d,200GB, 12h or 50GB; by default TRACKSIDE_KEEP.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def gc(keep: str | None, dry_run: bool) -> None:
    """Remove files of finished jobs that are older than an age or exceed a size.

    Working files first, then overlays of packages and job folders, whose record stays in storage.
    The data of the oldest jobs in embedded buckets only if the size is still exceeded. Without an
    age and a size, only temporary files of killed processes. Then what exceeds the quota of a key's
    label. Nothing outside TRACKSIDE_HOME is removed.

    \b
    Examples:
      trackside gc --keep 90d --dry-run
      trackside gc --keep 90d,200GB
    """
    known = jobs_of_this_machine("Freeing the disk")
    limits = Keep.parse(known.settings.keep) if keep is None else Keep.parse(keep, "--keep")
    disk = known.disk
    quotas = _quotas(known.settings)
    used = disk.used_by(quotas) if quotas else {}
    items = _gone(disk, disk.find(limits), dry_run)
    for owner, quota in quotas.items():
        items += _gone(disk, disk.find_beyond(owner, quota, used[owner], items), dry_run)
    if items:
        _print(items, with_owner=bool(quotas))
        total = size(sum(item.size_bytes for item in items))
        print(f"{total} would be freed." if dry_run else f"{total} freed.")
    else:
        print("Nothing to remove.")
    for owner, quota in quotas.items():
        left = used[owner] - sum(item.size_bytes for item in items if item.owner == owner)
        then = f"; {size(left)} then" if left != used[owner] else ""
        print(f"{owner} keeps {size(used[owner])} of a quota of {size(quota)}{then}.")


def _quotas(settings: Settings) -> dict[str, int]:
    """Quotas of the keys of this machine's server; none without the server extra."""
    try:
        return access_keys(settings).quotas()
    except MissingExtra:
        return {}
    except KeysElsewhere as error:
        print_message(f"Note: quotas are left out. {error}")
        return {}


def _gone(disk: Disk, items: list[Item], dry_run: bool) -> list[Item]:
    return items if dry_run else [item for item in items if disk.remove(item)]


def _print(items: list[Item], *, with_owner: bool) -> None:
    now = time.time()
    rows = []
    for item in items:
        age = duration(now - item.last_used)
        owner = (item.owner,) if with_owner else ()
        cells = (str(item.kind), age, size(item.size_bytes), *owner, item.name)
        rows.append([Cell(text) for text in cells])
    columns = ("KIND", "AGE", "SIZE", *(("OWNER",) if with_owner else ()), "NAME")
    print_table(columns, rows, numbers=("AGE", "SIZE"))
