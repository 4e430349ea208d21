"""`trackside reindex`: rebuilds the index from what is stored."""

from pathlib import Path

import click

from trackside.errors import InputError
from trackside.sdk.known_jobs import jobs_of_this_machine
from trackside.sdk.locations import is_remote, location


@click.command(short_help="Rebuild the list of jobs from storage.")
@click.argument("locations", metavar="[LOCATION]...", nargs=-1)
def reindex(locations: tuple[str, ...]) -> None:
    """Rebuild the list of jobs from the job folders and from object storage.

    Without a location: the embedded buckets, and the default output location.

    \b
    Examples:
      trackside reindex
      trackside reindex s3://bucket/out ./results
    """
    for each in locations:
        if not is_remote(each) and not Path(each).expanduser().exists():
            raise InputError(f"There is no {each!r} on this machine to look for jobs in.")
    known = jobs_of_this_machine("Making the list of jobs anew")
    count = known.reindex([location(each) for each in locations])
    print("1 job is known" if count == 1 else f"{count} jobs are known")
