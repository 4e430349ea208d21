"""One figure of many tensors at many steps, read in bulk: what rules and plots work on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.numpy_reductions import reduce_rows
from trackside.capture.step_table import StepTable
from trackside.capture.tensor_index import CubeRun, TensorIndex


@dataclass(frozen=True, slots=True)
class Cube:
    """`values[i, j]` is the figure of `names[j]` at `steps[i]`, float64."""

    steps: tuple[int, ...]
    """Of the mode asked for: those at which at least one of the tensors was saved."""
    names: tuple[str, ...]
    values: Array
    saved: Array
    """False where the tensor was not saved at the step; the value is NaN then."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype, copy=copy)


def read_cube(
    index: TensorIndex,
    table: StepTable,
    names: Sequence[str],
    column: str,
    *,
    mode: ModeKeys = ModeKeys.GLOBAL,
    worker: str | None = None,
) -> Cube:
    """From stored reductions; from raw values where there are none. No worker: the first's."""
    records = [index.get(name) for name in names]
    known = {step for record in records if record is not None for step in record.steps()}
    steps = [step for step in table.complete(mode) if table.global_step(mode, step) in known]
    rows = {table.global_step(mode, step): row for row, step in enumerate(steps)}
    figures = _Figures(len(steps), len(names))
    workers = {run.worker for r in records if r for runs in (r.runs, r.cubes) for run in runs}
    # The first worker by name comes last, and so wins.
    for each in [worker] if worker else sorted(workers, reverse=True):
        stored = np.zeros(figures.saved.shape, bool)
        for cube in _distinct([c for r in records if r for c in r.cubes.of(each)]):
            if column in cube.columns:
                places = {j: cube.positions[n] for j, n in enumerate(names) if n in cube.positions}
                array = cube.block.read()[:, :, cube.columns.index(column)]
                at = [rows.get(step) for step in cube.steps]
                figures.put(at, list(places), array[:, list(places.values())])
                stored[np.ix_([row for row in at if row is not None], list(places))] = True
        for j, record in enumerate(records):
            for run in record.runs.of(each) if record else ():
                at = [None if r is None or stored[r, j] else r for r in map(rows.get, run.steps)]
                if any(row is not None for row in at):
                    figures.put(at, [j], reduce_rows(run.block.read(), column)[:, None])
    return Cube(tuple(steps), tuple(names), figures.values, figures.saved)


class _Figures:
    """The arrays being filled."""

    def __init__(self, num_steps: int, num_names: int) -> None:
        self.values = np.full((num_steps, num_names), np.nan)
        self.saved = np.zeros((num_steps, num_names), bool)

    def put(self, rows: Sequence[int | None], names: Sequence[int], found: Array) -> None:
        """`found[i]` belongs to row `rows[i]`, and nowhere when that is None."""
        kept = [i for i, row in enumerate(rows) if row is not None]
        place = np.ix_([row for row in rows if row is not None], names)
        self.values[place] = found[kept]
        self.saved[place] = True


def _distinct(cubes: Sequence[CubeRun]) -> list[CubeRun]:
    """Each cube once, though every one of its tensors points to it."""
    return list({id(cube): cube for cube in cubes}.values())
