"""One figure of many tensors at many steps, read in bulk: what rules and plots work on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.capture.reading.step_table import StepTable
from trackside.capture.reading.tensor_index import Block, CubeRun, Run, TensorIndex, TensorRecord

_READ_BYTES = 16 << 20
"""Blocks are joined up to this size: temporaries then stay small, and calls few."""


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
    after_step: int | None = None,
) -> Cube:
    """From stored reductions; from raw values where there are none. No worker: the first's.

    Of files that end at or before `after_step` nothing is read.
    """
    records = [index.get(name) or TensorRecord() for name in names]
    steps = table.complete(mode, after=after_step)
    numbers = [table.global_step(mode, step) for step in steps]
    first = min((number for number in numbers if number is not None), default=0)
    known = {step for at in _step_tuples(records, first) for step in at}
    at_rows = [(step, number) for step, number in zip(steps, numbers, strict=True)]
    at_rows = [(step, number) for step, number in at_rows if number in known]
    figures = _Figures({number: row for row, (_, number) in enumerate(at_rows)}, len(names))
    workers = {
        w for record in records for runs in (record.runs, record.cubes) for w in runs.workers
    }
    # The first worker by name comes last, and so wins.
    for each in [worker] if worker else sorted(workers, reverse=True):
        stored = np.zeros(figures.saved.shape, bool)
        for cube in _distinct(c for r in records for c in r.cubes.since(each, first)):
            figures.put_stored(cube, names, column, stored)
        figures.put_raw(
            [list(record.runs.since(each, first)) for record in records], column, stored
        )
    return Cube(tuple([step for step, _ in at_rows]), tuple(names), figures.values, figures.saved)


class _Figures:
    """The arrays being filled."""

    def __init__(self, rows: dict[int | None, int], num_names: int) -> None:
        self.values = np.full((len(rows), num_names), np.nan)
        self.saved = np.zeros((len(rows), num_names), bool)
        self._rows = rows
        self._found: dict[int, tuple[Array, Array]] = {}

    def put_stored(self, cube: CubeRun, names: Sequence[str], column: str, stored: Array) -> None:
        rows, chosen = self._places(cube.steps)
        if column not in cube.columns or not len(rows):
            return
        places = {j: cube.positions[n] for j, n in enumerate(names) if n in cube.positions}
        array = cube.block.read()[chosen, :, cube.columns.index(column)]
        at = np.ix_(rows, np.array([*places]))
        self.values[at] = array[:, list(places.values())]
        self.saved[at] = stored[at] = True

    def put_raw(self, runs: Sequence[Iterable[Run]], column: str, stored: Array) -> None:
        """`runs[j]` are those of the tensor in place j. What is stored is not computed again."""
        any_stored = bool(stored.any())
        groups: dict[int, tuple[tuple[int, ...], list[tuple[int, Block]]]] = {}
        for j, of_one in enumerate(runs):
            for run in of_one:
                rows, _ = self._places(run.steps)
                if len(rows) and not (any_stored and stored[rows, j].all()):
                    groups.setdefault(id(run.steps), (run.steps, []))[1].append((j, run.block))
        for steps, blocks in groups.values():
            rows, chosen = self._places(steps)
            for places, block in _joined(blocks):
                found = reduce_rows(block.read(), column).reshape(len(places), -1).T[chosen]
                at = np.ix_(rows, np.array(places))
                self.values[at] = np.where(stored[at], self.values[at], found)
                self.saved[at] = True

    def _places(self, steps: tuple[int, ...]) -> tuple[Array, Array]:
        """Rows that these steps have in the cube, and where among the steps those are.

        Asked once for all tensors of a segment: they share one tuple.
        """
        found = self._found.get(id(steps))
        if found is None:
            rows = np.array([self._rows.get(step, -1) for step in steps])
            chosen = np.flatnonzero(rows >= 0)
            found = self._found[id(steps)] = (rows[chosen], chosen)
        return found


def _step_tuples(records: Sequence[TensorRecord], first: int) -> list[tuple[int, ...]]:
    """Each once, though all tensors of a segment have it."""
    found = {
        id(run.steps): run.steps
        for record in records
        for runs in (record.runs, record.cubes, record.shapes)
        for worker in runs.workers
        for run in runs.since(worker, first)
    }
    return list(found.values())


def _distinct(cubes: Iterable[CubeRun]) -> list[CubeRun]:
    """Each cube once, though every one of its tensors points to it."""
    return list({id(cube): cube for cube in cubes}.values())


def _joined(blocks: list[tuple[int, Block]]) -> Iterator[tuple[list[int], Block]]:
    """Neighbours in a file as one block, each with the places of the tensors in it."""
    blocks.sort(key=lambda item: item[1].place)
    places, whole = [blocks[0][0]], blocks[0][1]
    for j, block in blocks[1:]:
        longer = whole.followed_by(block, _READ_BYTES)
        if longer is None:
            yield places, whole
            places, whole = [j], block
        else:
            places.append(j)
            whole = longer
    yield places, whole
