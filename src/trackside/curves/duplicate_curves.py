"""Whether two curves have the same values: a loss that the script draws, prints and the hook sees
is one loss. Pure; `curve_choice` says which of them is shown."""

import numpy

from trackside.curves.columns import Reals

MOST_COMPARED = 200
"""Points of the shorter curve, evenly spread."""
LEAST_DISTINCT = 3
"""Values; with fewer, that curves have the same ones says nothing."""
_SINGLE_PRECISION = 1e-5
_AS_STORED = 2e-7
"""What a decimal fraction loses in single precision, as event files have it."""
_MOST_DECIMALS = 12


def is_telling(values: Reals) -> bool:
    """Whether its values alone are enough to know the curve by."""
    return len(numpy.unique(values[numpy.isfinite(values)])) >= LEAST_DISTINCT


def is_same(one: Reals, other: Reals) -> bool:
    """Whether the values of the shorter are among those of the longer in the same order, as far as
    either was rounded. Not finite values are passed over."""
    one, other = (values[numpy.isfinite(values)] for values in (one, other))
    part, whole = sorted((one, other), key=len)
    if not len(part):
        return False
    chosen = numpy.unique(numpy.linspace(0, len(part) - 1, MOST_COMPARED).astype(int))
    rounding = max(_rounding(one), _rounding(other))
    return _is_among(part[chosen], whole, rounding)


def _is_among(part: Reals, whole: Reals, rounding: float) -> bool:
    start = 0
    for value in part:
        allowed = rounding + abs(value) * _SINGLE_PRECISION
        found = _first_near(whole, start, value, allowed)
        if found is None:
            return False
        start = found + 1
    return True


def _first_near(whole: Reals, start: int, value: float, allowed: float) -> int | None:
    """Mostly it is one of the next."""
    length = 64
    while start < len(whole):
        near = numpy.abs(whole[start : start + length] - value) <= allowed
        if near.any():
            return start + int(near.argmax())
        start, length = start + length, length * 4
    return None


def _rounding(values: Reals) -> float:
    """Half of the last decimal that was printed; nothing for values that were not rounded."""
    sample = values[:MOST_COMPARED]
    for decimals in range(_MOST_DECIMALS):
        if numpy.allclose(sample, sample.round(decimals), rtol=_AS_STORED, atol=0.0):
            return 0.5 * 10.0**-decimals * (1 + _SINGLE_PRECISION)
    return 0.0
