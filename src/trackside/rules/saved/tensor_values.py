"""The values of one tensor over steps, as arrays: for rules that need more than reductions."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.tensor_index import Run, TensorRecord
from trackside.quick_dataclass import dataclass

_STRETCH_BYTES = 32 << 20
"""Bytes of a tensor read at once, unless one step is larger."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A tensor at consecutive saved steps, all of one shape."""

    steps: tuple[int, ...]
    values: Array
    """[steps, ...]; read-only if memory-mapped."""
    num_old: int
    """Number of leading steps that were returned before, for comparison."""


def stretches(
    record: TensorRecord,
    worker: str,
    first_new: int,
    *,
    before: int = 0,
    keeps: Callable[[int], bool] = lambda step: True,
) -> Iterator[Stretch]:
    """The steps from `first_new` on that `keeps` accepts, with up to `before` earlier ones."""
    rows = _rows(record.runs.of(worker), first_new, before, keeps)
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and _goes_on(rows, start, end):
            continue
        num_old = sum(step < first_new for step, *_ in rows[start:end])
        overlap = _same_kind(rows[max(0, start - before) : start], rows[start])
        if num_old < end - start:
            chosen = overlap + rows[start:end]
            steps, values = tuple(step for step, *_ in chosen), _stack(chosen)
            if values.dtype.kind in "biufc":  # smdebug saves text too
                yield Stretch(steps, values, num_old + len(overlap))
        start = end


_Row = tuple[int, Run, int]
"""Step, and the run and row with its value."""


def _rows(runs: list[Run], first_new: int, before: int, keeps: Callable[[int], bool]) -> list[_Row]:
    """Sorted by step. Runs are in order of arrival, and later ones win."""
    found: dict[int, _Row] = {}
    num_old = 0
    for run in reversed(runs):
        if run.steps[-1] < first_new and num_old >= before:
            break
        for row, step in reversed(list(enumerate(run.steps))):
            if step < first_new and num_old >= before:
                break
            if step not in found and keeps(step):
                found[step] = (step, run, row)
                num_old += step < first_new
    return [found[step] for step in sorted(found)]


def _goes_on(rows: list[_Row], start: int, end: int) -> bool:
    size = int(np.prod(rows[start][1].block.shape)) * 8
    is_small = size * (end - start + 1) <= _STRETCH_BYTES
    return is_small and _kind(rows[end]) == _kind(rows[start])


def _same_kind(earlier: list[_Row], row: _Row) -> list[_Row]:
    """The last rows, back to the first of another kind."""
    same = list(itertools.takewhile(lambda each: _kind(each) == _kind(row), reversed(earlier)))
    return same[::-1]


def _kind(row: _Row) -> tuple[str, tuple[int, ...]]:
    return row[1].block.dtype, row[1].block.shape


def _stack(rows: list[_Row]) -> Array:
    """A view if the rows are contiguous in one file."""
    parts = []
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and rows[end][1] is rows[start][1]:
            continue
        places = [row for _, _, row in rows[start:end]]
        block: Array = rows[start][1].block.read()
        is_dense = places[-1] - places[0] + 1 == len(places)
        parts.append(block[places[0] : places[-1] + 1] if is_dense else block[places])
        start = end
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
