"""`trackside tensors`: what a job's capture has saved, a row for each tensor."""

from dataclasses import asdict

import click

from trackside.capture.reading.table import FIGURES, TensorRow, tensor_table
from trackside.cli.job_names import job_argument
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json
from trackside.cli.trial_of import trial_of


@click.command(short_help="List the tensors that a job has saved, with figures.")
@job_argument()
@click.option("--collection", metavar="NAME", help="Only these: gradients, losses, weights, …")
@click.option(
    "--step", type=click.IntRange(0), metavar="N", help="Only those of this step, with its figures."
)
@click.option("--json", is_flag=True, help="Print JSON.")
def tensors(job: str, collection: str | None, step: int | None, json: bool) -> None:
    """List the tensors that a job has saved, with the figures of their last step.

    Works while the job runs and after it.

    \b
    Examples:
      trackside tensors train-2026-11-15-22-50-46-123
      trackside tensors train-2026-11-15-22-50-46-123 --collection gradients
    """
    rows = tensor_table(trial_of(job), collection, step)
    if json:
        print(as_json([asdict(row) for row in rows]))
    elif not rows:
        print(f"{job} has saved no such tensors yet.")
    else:
        numbers = ("STEPS", "STEP", *(figure.upper() for figure in FIGURES))
        print_table(("TENSOR", "SHAPE", *numbers), [_cells(row) for row in rows], numbers=numbers)


def _cells(row: TensorRow) -> list[Cell]:
    shape = "" if row.shape is None else "x".join(map(str, row.shape)) or "scalar"
    figures = [getattr(row, name) for name in FIGURES]
    shown = ["" if figure is None else f"{figure:.4g}" for figure in figures]
    return [Cell(text) for text in (row.name, shape, str(row.num_steps), str(row.step), *shown)]
