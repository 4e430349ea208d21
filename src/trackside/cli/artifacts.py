"""`trackside artifacts`: lists a job's artifacts in object storage, and downloads them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from trackside.cli.job_names import job_argument
from trackside.cli.messages import print_message
from trackside.cli.tables import Cell, print_table, print_text
from trackside.cli.text import as_json, size
from trackside.jobs.artifacts import Artifact
from trackside.jobs.kept_files import KeptFile
from trackside.sdk.known_jobs import known_reader
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import visible

_MODEL = "/output/model.tar.gz"
_MOST_SHOWN = 100
"""Kept files listed; `--json` has them all."""


@click.command(short_help="List or download what a job has stored: model, output, …")
@job_argument()
@click.option(
    "--download",
    "to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy everything here, kept files under their own paths.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def artifacts(job: str, to: Path | None, json: bool) -> None:
    """List what a job has stored: the model, other output, the files that the script wrote to its
    working folder, checkpoints, curves.

    \b
    Examples:
      trackside artifacts train-2026-11-15-22-50-46-123
      trackside artifacts train-2026-11-15-22-50-46-123 --download results
    """
    known = known_reader()
    found = known.artifacts(job)
    if json and to is None:
        print(as_json([*map(_as_json, found)]))
    elif not found:
        print(f"{shown_name(job)} has stored nothing yet.")
    elif to is not None:
        for artifact in found:
            for path in _copied(artifact, to, shown_name(job), known.settings.home):
                print_text(visible(str(path)))
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
        _print_files([file for each in found for file in each.files])


def _copied(artifact: Artifact, to: Path, job: str, home: Path) -> Iterator[Path]:
    """Kept files at the script's paths, everything else under its name in storage."""
    from trackside.cli.kept_files import conflict_text
    from trackside.sdk.download import bring_back, download

    if not artifact.files:
        yield from download(artifact, to, home)
    for file in artifact.files:
        copied = bring_back(file, to, job, may_replace=lambda path: False)
        if copied.existing is not None:
            print_message(conflict_text(copied))
        yield copied.path


def _as_json(artifact: Artifact) -> dict[str, Any]:
    return {
        "kind": artifact.kind,
        "uri": artifact.uri,
        "size_bytes": artifact.size_bytes,
        "num_files": artifact.num_files,
        "sha256": artifact.sha256,
        "files": {file.path: file.size_bytes for file in artifact.files},
    }


def _print_files(files: Sequence[KeptFile]) -> None:
    if not files:
        return
    print()
    rows = [[Cell(size(file.size_bytes)), Cell(file.path)] for file in files[:_MOST_SHOWN]]
    print_table(("SIZE", "FILE IN THE WORKING FOLDER"), rows, numbers=("SIZE",))
    if len(files) > _MOST_SHOWN:
        print_text(f"{len(files) - _MOST_SHOWN:,} more; --json has them all.")
