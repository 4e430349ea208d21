"""Decoded scalars: rows in file order, and columns by tag."""

import ctypes

import numpy
from numpy.typing import NDArray

from trackside.quick_dataclass import dataclass

Bytes = NDArray[numpy.uint8]
Integers = NDArray[numpy.int64]
Reals = NDArray[numpy.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """Points of one tag in the order they were written."""

    tag: str
    steps: Integers
    times: Reals
    values: Reals


@dataclass(frozen=True, slots=True)
class Decoded:
    columns: list[Column]
    others: list[bytes]
    """Events that are not plain scalars, undecoded; `summaries.py` parses them."""
    consumed: int
    """Bytes up to the end of the last readable record, without a partial one."""
    lost_bytes: int
    """Damaged, and skipped."""
    num_lost: int = 0
    """Damaged records, and ranges without a record."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Scalars in file order, by the number of their tag."""

    tags: list[str]
    tag: NDArray[numpy.int32]
    steps: Integers
    times: Reals
    values: Reals


def grouped(rows: Rows, library: ctypes.CDLL | None = None) -> list[Column]:
    """The rows of each tag grouped together."""
    counts = numpy.bincount(rows.tag, minlength=len(rows.tags)).astype(numpy.int64)
    ends = numpy.cumsum(counts)
    if library is None:
        order = numpy.argsort(rows.tag, kind="stable")
        steps, times, values = rows.steps[order], rows.times[order], rows.values[order]
    else:
        steps = numpy.empty_like(rows.steps)
        times, values = numpy.empty_like(rows.times), numpy.empty_like(rows.values)
        starts = ends - counts
        arrays = (rows.tag, rows.steps, rows.times, rows.values, starts, steps, times, values)
        library.trackside_group(len(rows.tag), *(array.ctypes.data for array in arrays))
    return [
        Column(tag, steps[end - count : end], times[end - count : end], values[end - count : end])
        for tag, count, end in zip(rows.tags, counts.tolist(), ends.tolist(), strict=True)
        if count
    ]
