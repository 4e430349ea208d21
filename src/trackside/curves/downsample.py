"""Downsamples a curve but preserves its extremes: spikes and dips stay visible."""

import numpy as np
from numpy.typing import NDArray


def thin(values: NDArray[np.floating], limit: int) -> NDArray[np.intp]:
    """At most `limit` indices, ascending: the first and last point, and of each interval of equal
    length its least and greatest and its first NaN. A limit of 1 leaves the last point.
    """
    count = len(values)
    if count <= limit:
        return np.arange(count)
    if limit < 5:  # too few for extremes
        return np.linspace(count - 1, 0, max(limit, 0), dtype=np.intp)[::-1]
    missing = np.isnan(values)
    per_stretch = 3 if missing.any() else 2
    rows = _in_rows(count, (limit - 2) // per_stretch)
    low = np.where(missing, np.inf, values)[rows].argmin(axis=1)
    high = np.where(missing, -np.inf, values)[rows].argmax(axis=1)
    chosen = [low, high]
    if per_stretch == 3:
        chosen.append(missing[rows].argmax(axis=1))
    columns = [rows[np.arange(len(rows)), column] for column in chosen]
    return np.unique(np.concatenate([[0, count - 1], *columns]))


def in_order(steps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Indices of points that no resumed script has rewritten; None for all.

    A job resumed from a checkpoint repeats steps, and what it wrote last counts. Points of the same
    step stay.
    """
    if len(steps) < 2 or bool((np.diff(steps) >= 0).all()):
        return None
    least_from_here_on = np.minimum.accumulate(steps[::-1])[::-1]
    kept: NDArray[np.bool_] = steps <= least_from_here_on
    return kept


def _in_rows(count: int, num_rows: int) -> NDArray[np.intp]:
    """Indices 0 to `count` in rows of one length, the last index repeated to fill the end."""
    width = -(-count // num_rows)
    rows = np.arange(-(-count // width) * width).reshape(-1, width)
    return np.minimum(rows, count - 1)
