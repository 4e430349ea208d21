"""Figures that sum up many: the percentiles of profiler rules and of their reports."""

from typing import Any

import numpy as np

from trackside.capture.dtypes import Array

OVERALL = ("max", "p99", "p95", "p50", "min")
"""What OverallSystemUsage reports, in this order."""


def percentile(values: Array, percent: float) -> float:
    """NaN of nothing, which is neither above nor below any threshold."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")


def box(values: Array) -> dict[str, float]:
    """What a box plot shows: quartiles, and the whiskers that 1.5 times their distance allows."""
    if not len(values):
        return {}
    p25, p50, p75, p95 = np.percentile(values, [25, 50, 75, 95]).tolist()
    reach = 1.5 * (p75 - p25)
    upper, lower = min(p75 + reach, float(values.max())), max(p25 - reach, float(values.min()))
    figures = {"p25": p25, "p50": p50, "p75": p75, "p95": p95, "upper": upper, "lower": lower}
    return {key: round(value, 4) for key, value in figures.items()}


def overall(values: Array) -> dict[str, Any]:
    values = values[~np.isnan(values)]
    if not len(values):
        return {}
    top, p99, p95, p50, least = np.percentile(values, [100, 99, 95, 50, 0]).tolist()
    return {
        key: round(value, 4)
        for key, value in zip(OVERALL, (top, p99, p95, p50, least), strict=True)
    }
