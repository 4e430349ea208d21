"""`trackside artifacts`: what a job has left in object storage, and a copy of it."""

from dataclasses import asdict
from pathlib import Path

import click

from trackside.cli.job_names import job_argument
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json, size
from trackside.sdk.download import download
from trackside.sdk.known_jobs import known_jobs

_MODEL = "/output/model.tar.gz"


@click.command(short_help="List or download what a job has stored: model, output, …")
@job_argument()
@click.option(
    "--download",
    "to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy everything here.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def artifacts(job: str, to: Path | None, json: bool) -> None:
    """List what a job has stored: the model, other output, checkpoints, curves.

    \b
    Examples:
      trackside artifacts train-2026-11-15-22-50-46-123
      trackside artifacts train-2026-11-15-22-50-46-123 --download results
    """
    known = known_jobs()
    found = known.artifacts(job)
    if json and to is None:
        print(as_json([asdict(artifact) for artifact in found]))
    elif not found:
        print(f"{job} has stored nothing yet.")
    elif to is not None:
        for artifact in found:
            for path in download(artifact, to, known.settings.home):
                print(path)
    else:
        rows = [
            [
                Cell("model" if each.uri.endswith(_MODEL) else each.kind),
                Cell(size(each.size_bytes)),
                Cell(str(each.num_files)),
                Cell(each.uri),
            ]
            for each in found
        ]
        print_table(("KIND", "SIZE", "FILES", "LOCATION"), rows, numbers=("SIZE", "FILES"))
