"""Reductions of a value that was saved raw: the same definitions as those taken by the hook.

Norms are vector norms over all elements; std and variance are unbiased (n - 1).
"""

from collections.abc import Callable

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugValueError

_Reduce = Callable[[Array], np.floating]


def reduce_array(value: Array, column: str) -> Array:
    """`column` as it is stored: "min", "abs_mean", "l2". 0-d float64; NaN where undefined."""
    name = column.removeprefix("abs_")
    reduce = _REDUCTIONS.get(name)
    if reduce is None:
        raise SMDebugValueError(
            f"Unknown reduction {column!r}. Known: {', '.join(_REDUCTIONS)}, and each with abs_."
        )
    if np.iscomplexobj(value) or name != column:
        value = np.abs(value)
    flat = value.reshape(-1).astype(np.float64, copy=False)
    if flat.size < _SMALLEST.get(name, 1):
        return np.array(_OF_NOTHING.get(name, np.nan))
    with np.errstate(all="ignore"):  # an overflow or NaN in training is a finding, not a warning
        return np.array(reduce(flat))


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


def _median(flat: Array) -> np.floating:
    # Of an even number torch takes the lower middle; NaN wins, as there.
    if np.isnan(flat).any():
        return np.float64(np.nan)
    middle = (flat.size - 1) // 2
    lowest: np.floating = np.partition(flat, middle)[middle]
    return lowest


_REDUCTIONS: dict[str, _Reduce] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "std": lambda flat: np.std(flat, ddof=1),
    "variance": lambda flat: np.var(flat, ddof=1),
    "sum": np.sum,
    "prod": np.prod,
    "median": _median,
    "l1": lambda flat: np.sum(np.abs(flat)),
    "l2": lambda flat: np.sqrt(np.dot(flat, flat)),
}
_SMALLEST = {"std": 2, "variance": 2}
_OF_NOTHING = {"sum": 0.0, "prod": 1.0, "l1": 0.0, "l2": 0.0}
