"""`trackside stop`: ends a job and keeps its output."""

import click

from trackside.cli.job_names import job_argument
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.shown_names import shown_name


@click.command(short_help="Stop a job and keep its output.")
@job_argument()
@click.option("-w", "--wait", is_flag=True, help="Return when it has finished.")
def stop(job: str, wait: bool) -> None:
    """Stop a job. The script gets SIGTERM and time to save; its output is kept.

    Stopping a finished job changes nothing.

    \b
    Example:
      trackside stop train-2026-11-15-22-50-46-123 --wait
    """
    known = known_jobs()
    history = known.stop(job)
    if wait:
        history = known.wait(job)
    print(f"{shown_name(job)} is {history.state.secondary}")
