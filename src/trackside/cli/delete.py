"""`trackside delete`: forgets jobs that have ended."""

import click

from trackside.cli.job_names import job_argument
from trackside.sdk.known_jobs import known_jobs


@click.command(short_help="Forget jobs that have ended, and keep what they made.")
@job_argument("jobs", metavar="JOB...", nargs=-1, required=True)
def delete(jobs: tuple[str, ...]) -> None:
    """Forget jobs that have ended: record, log and list entry. What they made is kept.

    Model, output, checkpoints, tensors and curves stay where `trackside artifacts` lists them. The
    name is free again.

    \b
    Example:
      trackside delete train-2026-11-15-22-50-46-123
    """
    known = known_jobs()
    for job in jobs:
        known.delete(job)
        print(f"{job} is forgotten")
