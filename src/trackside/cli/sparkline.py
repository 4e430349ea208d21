"""A curve in one line of text."""

import numpy

from trackside.curves.columns import Reals

BARS = "▁▂▃▄▅▆▇█"
GAP = "×"


def sparkline(values: Reals, width: int = 32) -> str:
    """Each character is a part of the curve at its mean; a part with no finite value is a cross."""
    parts = numpy.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return GAP * len(means)
    least, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        GAP if mean is None else BARS[round((mean - least) / span * (len(BARS) - 1))]
        for mean in means
    )


def _mean(part: Reals) -> float | None:
    finite = part[numpy.isfinite(part)]
    return float(finite.mean()) if len(finite) else None
