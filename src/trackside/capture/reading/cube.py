"""One figure of many tensors at many steps, read in bulk: for rules and plots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading import damaged_blocks
from trackside.capture.reading.extras import import_extra
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.capture.reading.step_table import StepTable
from trackside.capture.reading.tensor_index import Block, CubeRun, Run, TensorIndex, TensorRecord
from trackside.quick_dataclass import dataclass

_READ_BYTES = 16 << 20
"""Blocks are joined up to this size: temporaries then stay small, and calls few."""
_ROWS = 32
"""Copied at once, so that gathering in another order than stored stays in the cache."""
_Indices = slice | Array
"""Indices along one axis: a slice if contiguous, which is copied as a block."""
MOST_NAMED = 12
"""Lines named in the legend; of more, the first and the last."""


@dataclass(frozen=True, slots=True)
class Cube:
    """`values[i, j]` is the figure of `names[j]` at `steps[i]`, float64."""

    steps: tuple[int, ...]
    """Of the requested mode: those at which at least one of the tensors was saved."""
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
    """From stored reductions; from raw values without any. Without a worker: the first's.

    Files that end at or before `after_step` are not read.
    """
    loose = [(j, record) for j, name in enumerate(names) if (record := index.loose.get(name))]
    own, whole = table.columns(mode, after=after_step)
    first = min(whole, default=0)
    cubes = _Layouts(index, names)
    rows = _Rows(np.array(whole, np.int64))
    rows.keep([*cubes.steps(first), *_steps_of(loose, first)])
    figures = _Figures(rows, len(names))
    workers = {*index.cubes.workers, *(w for _, record in loose for w in record.runs.workers)}
    # The first worker by name comes last, and so wins.
    for each in [worker] if worker else sorted(workers, reverse=True):
        stored = [*cubes.of(each, first)]
        for cube, indices in stored:
            figures.put_stored(cube, indices, column)
        runs = [(j, record.runs.since(each, first)) for j, record in loose]
        if runs:
            figures.put_raw(runs, column, figures.marks(stored, column))
    steps = np.array(own, np.int64)[rows.kept].tolist()
    return Cube(tuple(steps), tuple(names), figures.finished(), figures.saved)


class _Rows:
    """Which row of the cube a step has: those at which at least one of the tensors was saved."""

    def __init__(self, steps: Array) -> None:
        self.kept = np.zeros(len(steps), bool)
        self._order: Array | None = None
        self._sorted = steps
        if (steps[1:] < steps[:-1]).any():  # a mode that was resumed in an earlier step
            self._order = np.argsort(steps, kind="stable")
            self._sorted = steps[self._order]
        self._numbers = np.empty(0, np.int64)
        self._found: dict[int, tuple[_Indices, _Indices]] = {}

    def __len__(self) -> int:
        return int(self.kept.sum())

    def keep(self, saved: Iterable[Sequence[int]]) -> None:
        for steps in saved:
            self.kept[self._search(steps)[0]] = True
        self._numbers = np.cumsum(self.kept) - 1

    def indices(self, steps: Sequence[int]) -> tuple[_Indices, _Indices] | None:
        """Rows of these steps, and their positions among the steps; None if none has one.

        Called once for all tensors of a segment: they share one sequence.
        """
        found = self._found.get(id(steps))
        if found is None:
            rows, chosen = self._search(steps)
            found = self._found[id(steps)] = (
                _as_slice(self._numbers[rows]),
                _as_slice(chosen),
            )
        return None if _is_empty(found[0]) else found

    def _search(self, steps: Sequence[int]) -> tuple[Array, Array]:
        wanted = _numbers(steps)
        if not len(self._sorted):
            return wanted[:0], wanted[:0]
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        chosen = np.flatnonzero(self._sorted[at] == wanted)
        rows = at[chosen]
        return rows if self._order is None else self._order[rows], chosen


class _Layouts:
    """The stored reductions of some tensors, with the positions of those tensors in each cube."""

    def __init__(self, index: TensorIndex, names: Sequence[str]) -> None:
        self._index = index
        self._names = names
        self._found: dict[int, tuple[_Indices, _Indices]] = {}

    def of(self, worker: str, first: int) -> Iterator[tuple[CubeRun, tuple[_Indices, _Indices]]]:
        for cube in self._index.cubes.since(worker, first):
            indices = self._indices_of(cube.positions)
            if not _is_empty(indices[0]):
                yield cube, indices

    def steps(self, first: int) -> Iterator[Sequence[int]]:
        for worker in self._index.cubes.workers:
            for cube, _ in self.of(worker, first):
                yield cube.steps

    def _indices_of(self, positions: Mapping[str, int]) -> tuple[_Indices, _Indices]:
        """In the cube to be made, and in the one stored. Many segments have the same layout."""
        found = self._found.get(id(positions))
        if found is None:
            ours = [j for j, name in enumerate(self._names) if name in positions]
            theirs = [positions[self._names[j]] for j in ours]
            indices = _as_slice(np.array(ours, int)), _as_slice(np.array(theirs, int))
            found = self._found[id(positions)] = indices
        return found


class _Figures:
    """The arrays being filled."""

    def __init__(self, rows: _Rows, num_names: int) -> None:
        self.saved = np.zeros((len(rows), num_names), bool)
        self._values = np.empty((len(rows), num_names))
        self._rows = rows

    def put_stored(self, cube: CubeRun, indices: tuple[_Indices, _Indices], column: str) -> None:
        at = self._rows.indices(cube.steps) if column in cube.columns else None
        whole = None if at is None else damaged_blocks.read(cube.block)
        if at is None or whole is None:
            return
        plane = whole[:, :, cube.columns.index(column)]
        self.saved[_grid(at[0], indices[0])] = True
        if all(isinstance(each, slice) for each in (*at, *indices)):
            self._values[at[0], indices[0]] = plane[at[1], indices[1]]
            return
        for rows, chosen in zip(_parts(at[0]), _parts(at[1]), strict=True):
            self._values[_grid(rows, indices[0])] = plane[_grid(chosen, indices[1])]

    def marks(
        self, cubes: Iterable[tuple[CubeRun, tuple[_Indices, _Indices]]], column: str
    ) -> Array:
        """Where these have the column."""
        found = np.zeros(self.saved.shape, bool)
        for cube, indices in cubes:
            at = self._rows.indices(cube.steps) if column in cube.columns else None
            if at is not None:
                found[_grid(at[0], indices[0])] = True
        return found

    def put_raw(
        self, runs: Iterable[tuple[int, Iterable[Run]]], column: str, stored: Array
    ) -> None:
        """Each tensor's index and its runs. Stored figures are not computed again."""
        groups: dict[int, tuple[Sequence[int], list[tuple[int, Block]]]] = {}
        has_stored = bool(stored.any())
        for j, of_one in runs:
            for run in of_one:
                at = self._rows.indices(run.steps)
                if at is not None and not (has_stored and stored[at[0], j].all()):
                    groups.setdefault(id(run.steps), (run.steps, []))[1].append((j, run.block))
        for steps, blocks in groups.values():
            at = self._rows.indices(steps)
            assert at is not None
            for indices, block in _joined(blocks):
                values = damaged_blocks.read(block)
                if values is None:
                    continue
                found = reduce_rows(values, column).reshape(len(indices), -1).T[at[1]]
                target = _grid(at[0], np.array(indices))
                self._values[target] = np.where(stored[target], self._values[target], found)
                self.saved[target] = True

    def finished(self) -> Array:
        if not self.saved.all():
            self._values[~self.saved] = np.nan
        return self._values


def _steps_of(loose: Iterable[tuple[int, TensorRecord]], first: int) -> list[Sequence[int]]:
    """Of raw values and shapes; each sequence once, though all tensors of a segment have it."""
    found = {
        id(run.steps): run.steps
        for _, record in loose
        for runs in (record.runs, record.shapes)
        for worker in runs.workers
        for run in runs.since(worker, first)
    }
    return list(found.values())


def _numbers(steps: Sequence[int]) -> Array:
    if isinstance(steps, range):
        return np.arange(steps.start, steps.stop, steps.step)
    return np.array(steps, np.int64)


def _as_slice(indices: Array) -> _Indices:
    if len(indices) and (indices[1:] - indices[:-1] == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _parts(indices: _Indices) -> Iterator[_Indices]:
    if isinstance(indices, slice):
        for start in range(indices.start, indices.stop, _ROWS):
            yield slice(start, min(start + _ROWS, indices.stop))
    else:
        for start in range(0, len(indices), _ROWS):
            yield indices[start : start + _ROWS]


def _is_empty(indices: _Indices) -> bool:
    return not isinstance(indices, slice) and not len(indices)


def _grid(rows: _Indices, columns: _Indices) -> tuple[_Indices, _Indices]:
    """The index of every cell in these rows and columns."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return rows, columns
    return rows[:, None], columns


def _joined(blocks: list[tuple[int, Block]]) -> Iterator[tuple[list[int], Block]]:
    """Neighbours in a file as one block, each with the indices of its tensors."""
    blocks.sort(key=lambda item: item[1].position)
    indices, whole = [blocks[0][0]], blocks[0][1]
    for j, block in blocks[1:]:
        longer = whole.followed_by(block, _READ_BYTES)
        if longer is None:
            yield indices, whole
            indices, whole = [j], block
        else:
            indices.append(j)
            whole = longer
    yield indices, whole


def plot_cube(cube: Cube, title: str, ylabel: str, ax: Any = None) -> Any:
    """One line for each tensor; returns the axes."""
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot").subplots()
    steps = np.asarray(cube.steps)
    styles = _styles(len(cube.names))
    for column, (name, style) in enumerate(zip(cube.names, styles, strict=True)):
        saved = cube.saved[:, column]
        ax.plot(steps[saved], cube.values[saved, column], label=name, **style)
    ax.set(title=title, xlabel="step", ylabel=ylabel)
    lines = ax.get_lines()
    if len(lines) > MOST_NAMED:
        ax.legend(handles=[lines[0], lines[-1]], fontsize="small")
    elif lines:
        ax.legend(fontsize="small")
    return ax


def _styles(count: int) -> list[dict[str, Any]]:
    """A few have distinct colours; with many, the colour follows the position in the list."""
    if count <= MOST_NAMED:
        return [{"marker": "."}] * count
    shades = import_extra("matplotlib").colormaps["viridis"](np.linspace(0, 1, count))
    return [{"color": shade, "linewidth": 0.8} for shade in shades]
