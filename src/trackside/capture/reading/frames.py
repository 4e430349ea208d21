"""A trial as one table: a row for each tensor, step and worker, a column for each reduction."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading import damaged_blocks
from trackside.capture.reading.tensor_index import Block, CubeRun, Run, TensorRecord

if TYPE_CHECKING:
    from trackside.capture.trial import Trial

ABOUT = ("step", "mode", "mode_step", "time", "worker", "tensor")
"""The columns before the figures. `value` follows, for tensors of one element."""


def table_columns(trial: "Trial") -> dict[str, list[Any] | Array]:
    """Columns of the table by name, ordered by tensor, worker and step."""
    parts = [
        part
        for name, record in sorted(trial.tensor_records())
        for worker in sorted({*record.runs.workers, *record.cubes.workers})
        if (part := _part(trial, name, record, worker)) is not None
    ]
    figures = ["value", *sorted({c for _, found in parts for c in found if c != "value"})]
    columns: dict[str, list[Any] | Array] = {
        column: [row[index] for about, _ in parts for row in about]
        for index, column in enumerate(ABOUT)
    }
    for column in figures:
        arrays = [found.get(column, np.full(len(about), np.nan)) for about, found in parts]
        columns[column] = np.concatenate(arrays) if arrays else np.empty(0)
    return columns


_About = tuple[int, str, int, float, str, str]


def _part(
    trial: "Trial", name: str, record: TensorRecord, worker: str
) -> tuple[list[_About], dict[str, Array]] | None:
    """The rows of one tensor by one worker: keys and figures."""
    scalars = [run for run in record.runs.of(worker) if _is_number(run.block)]
    cubes = record.cubes.of(worker)
    known = {step for run in scalars for step in run.steps}
    known.update(step for cube in cubes for step in cube.steps)
    steps = sorted(step for step in known if step in trial.step_table)
    if not steps:
        return None
    about = []
    for step in steps:
        saved = trial.step_table.get(step)
        assert saved is not None
        about.append((step, saved.mode.name, saved.mode_step, saved.time, worker, name))
    return about, _figures(name, steps, scalars, cubes)


def _figures(
    name: str, steps: Sequence[int], scalars: Sequence[Run], cubes: Sequence[CubeRun]
) -> dict[str, Array]:
    """By column; NaN if nothing was saved, or it cannot be read."""
    rows = {step: row for row, step in enumerate(steps)}
    found: dict[str, Array] = {}

    def put(column: str, at: Sequence[int], figures: Array) -> None:
        array = found.setdefault(column, np.full(len(steps), np.nan))
        for step, figure in zip(at, figures, strict=True):
            if step in rows:
                array[rows[step]] = figure

    for run in scalars:
        if (values := damaged_blocks.read(run.block)) is not None:
            put("value", run.steps, values.reshape(-1).real)
    for cube in cubes:
        if (array := damaged_blocks.read(cube.block)) is not None:
            for index, column in enumerate(cube.columns):
                put(column, cube.steps, array[:, cube.positions[name], index])
    return found


def _is_number(block: Block) -> bool:
    about = damaged_blocks.attempt(block, lambda: (block.shape, block.dtype))
    return about is not None and math.prod(about[0]) == 1 and about[1] != "str"
