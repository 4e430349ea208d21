"""Reductions of values that were saved raw: the same definitions as those taken by the hook.

Norms are vector norms over all elements; std and variance are unbiased (n - 1); of an even number
of elements the median is the lower middle one, as torch has it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugValueError


def column_name(reduction: str, absolute: bool = False) -> str:
    """From any spelling users know ("l2", "l2_norm", "abs_l2") to the stored one."""
    name = reduction.removesuffix("_norm")
    if absolute and not name.startswith("abs_"):
        name = f"abs_{name}"
    if name.removeprefix("abs_") not in _REDUCTIONS:
        raise SMDebugValueError(
            f"Unknown reduction {reduction!r}. Known: {', '.join(_REDUCTIONS)}, "
            "and each with abs_ in front or abs=True."
        )
    return name


def reduce_rows(values: Array, column: str) -> Array:
    """One float64 figure for each entry of the first axis; NaN where it is not defined."""
    if values.dtype.kind not in "biufc":  # smdebug saves text too
        return np.full(len(values), np.nan)
    rows = values.reshape(len(values), -1)
    if rows.dtype.kind in "biu":
        rows = rows.astype(np.float64)  # the absolute value of int8's -128 is no int8
    name = column.removeprefix("abs_")
    if name != column or rows.dtype.kind == "c":
        rows = np.abs(rows)
    if rows.shape[1] < _SMALLEST.get(name, 1):
        return np.full(len(rows), _OF_NOTHING.get(name, np.nan))
    with np.errstate(all="ignore"):  # overflow and NaN in training are findings, not warnings
        figures: Array = _REDUCTIONS[name](rows)
    return figures.astype(np.float64, copy=False)


def _median(rows: Array) -> Array:
    middle = (rows.shape[1] - 1) // 2
    medians: Array = np.partition(rows, middle, axis=1)[:, middle]
    medians[np.isnan(rows).any(axis=1)] = np.nan
    return medians


_F64 = np.float64  # sums are taken in it, whatever the elements are, without converting them first
_REDUCTIONS: dict[str, Callable[[Array], Any]] = {
    "min": lambda rows: np.min(rows, axis=1),
    "max": lambda rows: np.max(rows, axis=1),
    "mean": lambda rows: np.mean(rows, axis=1, dtype=_F64),
    "std": lambda rows: np.std(rows, axis=1, dtype=_F64, ddof=1),
    "variance": lambda rows: np.var(rows, axis=1, dtype=_F64, ddof=1),
    "sum": lambda rows: np.sum(rows, axis=1, dtype=_F64),
    "prod": lambda rows: np.prod(rows, axis=1, dtype=_F64),
    "median": _median,
    "l1": lambda rows: np.sum(np.abs(rows), axis=1, dtype=_F64),
    "l2": lambda rows: np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=_F64)),
}
_SMALLEST = {"std": 2, "variance": 2}
_OF_NOTHING = {"sum": 0.0, "prod": 1.0, "l1": 0.0, "l2": 0.0}
