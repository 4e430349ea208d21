"""`trackside delete`: deletes finished jobs and, with --data, their output."""

import sys
from collections.abc import Sequence

import click

from trackside.cli.job_names import job_argument
from trackside.cli.tables import Cell, print_table, print_text
from trackside.cli.text import size
from trackside.jobs.stored_data import CHECKPOINTS, CURVES, Stored, is_removed
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.shown_names import shown_name


@click.command(short_help="Delete finished jobs; with --data, also their output.")
@job_argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--data", is_flag=True, help="Also remove their stored output.")
@click.option(
    "--checkpoints",
    is_flag=True,
    help="With --data: also checkpoints at a location without the job's name in it.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(jobs: tuple[str, ...], data: bool, checkpoints: bool, yes: bool) -> None:
    """Delete finished jobs: record, log and list entry. Their output is kept.

    Model, output, checkpoints, tensors and curves stay in storage, and their locations are printed.
    `--data` removes them too, except what other jobs need.

    \b
    Examples:
      trackside delete train-2026-11-15-22-50-46-123
      trackside delete train-2026-11-15-22-50-46-123 --data
    """
    is_asked = sys.stdin.isatty() and not yes
    if checkpoints and not data:
        raise click.UsageError("--checkpoints says what --data removes. Give both.")
    if data and not yes and not is_asked:
        raise click.UsageError(
            "--data asks before it removes anything, and there is no terminal to ask at. Add --yes."
        )
    known = known_jobs()
    stored = {job: known.stored(job) for job in jobs} if is_asked or data else {}
    if is_asked and not _is_wanted(stored, data, checkpoints):
        print("Nothing was deleted.")
        return
    for job in jobs:
        kept = known.delete(job, data=data, checkpoints=checkpoints)
        print(f"{shown_name(job)} is forgotten{_removed(stored[job], kept) if data else ''}")
        _print_retained(kept, data)


def _is_wanted(stored: dict[str, list[Stored]], data: bool, checkpoints: bool) -> bool:
    rows, removed = [], 0
    for job, of_job in stored.items():
        for each in of_job:
            goes = is_removed(each, data, checkpoints)
            removed += each.size_bytes if goes else 0
            fate = "removed" if goes else "kept"
            cells = (shown_name(job), fate, each.kind, size(each.size_bytes), each.uri)
            rows.append([Cell(text) for text in cells])
    if rows:
        print_table(("JOB", "DATA", "KIND", "SIZE", "LOCATION"), rows, numbers=("SIZE",))
    what = shown_name(next(iter(stored))) if len(stored) == 1 else f"{len(stored)} jobs"
    question = f"Forget {what}, and remove {size(removed)} for good?" if data else f"Forget {what}?"
    return click.confirm(question)


def _removed(stored: Sequence[Stored], kept: Sequence[Stored]) -> str:
    places = {each.uri for each in kept}
    gone = sum(each.size_bytes for each in stored if each.uri not in places)
    return f", and {size(gone)} that it had stored are removed" if gone else ""


def _print_retained(kept: Sequence[Stored], data: bool) -> None:
    for each in kept:
        why = f": {_reason(each)}" if data else ""
        print(f"  kept {each.kind}, {size(each.size_bytes)}, {each.uri}{why}")
    if any(each.kind == CURVES for each in kept):
        print_text(
            "A new job of this name needs another TensorBoard location while these curves are "
            "there."
        )


def _reason(kept: Stored) -> str:
    if kept.kept:
        return kept.kept
    if kept.kind == CHECKPOINTS and not kept.is_own:
        return "the location may be shared; --checkpoints removes it too"
    return "the server removes no data"
