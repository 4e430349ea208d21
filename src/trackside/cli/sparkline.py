"""A curve in one line of text."""

import numpy

from trackside.curves.columns import Reals

BARS = "▁▂▃▄▅▆▇█"
GAP = "×"
ASCII_BARS = "_.-~+=*#"
ASCII_GAP = "x"


def sparkline(values: Reals, width: int = 32, *, is_ascii: bool = False) -> str:
    """Each character is a part of the curve at its mean; a part with no finite value is a cross."""
    bars, gap = (ASCII_BARS, ASCII_GAP) if is_ascii else (BARS, GAP)
    parts = numpy.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return gap * len(means)
    least, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        gap if mean is None else bars[round((mean - least) / span * (len(bars) - 1))]
        for mean in means
    )


def _mean(part: Reals) -> float | None:
    finite = part[numpy.isfinite(part)]
    return float(finite.mean()) if len(finite) else None
