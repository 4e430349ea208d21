"""`trackside report`: everything about a job, as one page."""

import webbrowser
from pathlib import Path

import click

from trackside.cli.job_names import job_argument
from trackside.cli.text import size
from trackside.files import durable
from trackside.files.permissions import BY_UMASK
from trackside.rules.report.page import report_page
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.shown_names import shown_name
from trackside.views.job.report_material import gather


@click.command(short_help="Write an HTML report about a job.")
@job_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; by default JOB.html in this folder.",
)
@click.option("--open", "is_opened", is_flag=True, help="Show it in the browser.")
def report(job: str, output: Path | None, is_opened: bool) -> None:
    """Write one HTML page about a job: findings, curves, layers, machine, step times, rules.

    The page needs no network and no other file. Works during the job and after it.

    \b
    Examples:
      trackside report train-2026-11-15-22-50-46-123 --open
      trackside report train-2026-11-15-22-50-46-123 -o report.html
    """
    path = output or Path(f"{shown_name(job)}.html")
    page = report_page(gather(job, known_jobs()))
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(path, page, mode=BY_UMASK)
    print(f"{path}  ({size(len(page))})")
    if is_opened:
        webbrowser.open(path.absolute().as_uri())
