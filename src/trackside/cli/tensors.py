"""`trackside tensors`: lists the tensors that a job has saved."""

from dataclasses import asdict

import click

from trackside.capture.reading.table import FIGURES, TensorRow, tensor_table
from trackside.capture.trial import Trial
from trackside.cli.job_names import job_argument
from trackside.cli.job_trial import trial_of
from trackside.cli.tables import Cell, print_table, print_text
from trackside.cli.text import as_json
from trackside.texts.shown_names import shown_name


@click.command(short_help="List the tensors that a job has saved, with statistics.")
@job_argument(or_place=True)
@click.option("--collection", metavar="NAME", help="Only these: gradients, losses, weights, …")
@click.option(
    "--step",
    type=click.IntRange(0),
    metavar="N",
    help="Only tensors of this step, with its statistics.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def tensors(job: str, collection: str | None, step: int | None, json: bool) -> None:
    """List the tensors that a job has saved, with statistics of their last step.

    Works during the job and after it.

    \b
    Examples:
      trackside tensors train-2026-11-15-22-50-46-123
      trackside tensors train-2026-11-15-22-50-46-123 --collection gradients
    """
    trial = trial_of(job)
    rows = tensor_table(trial, collection, step)
    if json:
        print(as_json([asdict(row) for row in rows]))
    elif not rows:
        print_text(_none(trial, shown_name(job), collection, step))
    else:
        numbers = ("STEPS", "STEP", *(figure.upper() for figure in FIGURES))
        columns = ("TENSOR", "SHAPE", *numbers)
        print_table(columns, [_cells(row) for row in rows], numbers=numbers, spare=("STEP",))


def _none(trial: Trial, job: str, collection: str | None, step: int | None) -> str:
    """The message if there are no tensors: what the job has instead."""
    if collection is not None and not trial.tensor_names(collection=collection):
        saved = [name for name in trial.collections() if trial.tensor_names(collection=name)]
        return f"{job} has saved no tensors of {collection!r}, but of {', '.join(sorted(saved))}."
    steps = trial.steps()
    if step is not None and steps:
        near = min(steps, key=lambda each: abs(each - step))
        return (
            f"{job} has saved nothing such at step {step}. It has {len(steps)} steps, "
            f"{steps[0]} to {steps[-1]}; the nearest is {near}."
        )
    return f"{job} has saved no tensors yet."


def _cells(row: TensorRow) -> list[Cell]:
    shape = "" if row.shape is None else "x".join(map(str, row.shape)) or "scalar"
    figures = [getattr(row, name) for name in FIGURES]
    shown = ["" if figure is None else f"{figure:.4g}" for figure in figures]
    return [Cell(text) for text in (row.name, shape, str(row.num_steps), str(row.step), *shown)]
