"""A chart's scale and tick labels: linear, or logarithmic where a spike would flatten the rest.
Pure.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy

from trackside.curves.columns import Reals

_FLAT = 0.15
"""The part of the height that most values need, below which a chart shows only the spike."""
_GAIN = 2.0
_MOST_DECADES = 40
_NICE = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    name: str = ""
    """Its label in the title; empty for a linear one."""
    bent: Callable[[Reals], Reals] = lambda values: values

    def cell(self, value: float, cells: int, dots_each: int) -> int:
        """The cell, of this many, with the dot of this value."""
        place = round(float(self.places(numpy.array([value]), cells * dots_each)[0]))
        return min(max(place // dots_each, 0), cells - 1)

    def places(self, values: Reals, dots: int) -> Reals:
        """From 0 to `dots - 1`."""
        low, high = self.bent(numpy.array([self.low, self.high]))
        places: Reals = (self.bent(values) - low) / (high - low) * (dots - 1)
        return places


def linear(values: Reals) -> Scale:
    """For finite values, at least one."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        room = abs(low) / 2 or 1.0
        return Scale(low - room, high + room)
    return Scale(low, high)


def fitting(values: Reals) -> Scale:
    """Linear, unless most values would then share a few rows at the edge."""
    plain = linear(values)
    is_level = bool((values == values[0]).all())
    if is_level or _bulk(values, plain) >= _FLAT:
        return plain
    if plain.low > 0:
        bent = Scale(plain.low, plain.high, "log scale", numpy.log10)
    else:
        # Linear around the magnitude of most values, which leaves a place for zero and negative
        # ones.
        size = float(numpy.median(numpy.abs(values[values != 0])))
        bent = Scale(
            plain.low, plain.high, "symmetric log scale", lambda each: numpy.arcsinh(each / size)
        )
    return bent if _bulk(values, bent) > _GAIN * _bulk(values, plain) else plain


def ticks(
    scale: Scale, cells: int, *, least_apart: float, dots_each: int = 1, is_whole: bool = False
) -> dict[int, str]:
    """Labels by cell, counted from the low end; `is_whole` for integers."""
    if not scale.name:
        step = _step(scale, cells, least_apart, 1.0 if is_whole else 0.0)
        return _linear_ticks(scale, step, cells, dots_each)
    found: dict[int, str] = {}
    for value in _round_values(scale):
        place = scale.cell(value, cells, dots_each)
        if all(abs(place - other) > least_apart for other in found):
            found[place] = short(value)
    return found


def short(value: float, decimals: int | None = None) -> str:
    """`0.35`, `250`, `12k`, `3M`, `2e-05`."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-4:
        return f"{value:.3g}"
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            return f"{value / unit:.6g}{letter}"
    return f"{value:.4g}" if decimals is None else f"{value:.{decimals}f}"


def _bulk(values: Reals, scale: Scale) -> float:
    """The part of the height that the middle eight tenths of the values take."""
    low, high = numpy.quantile(scale.places(values, 2), (0.1, 0.9))
    return float(high - low)


def _step(scale: Scale, cells: int, least_apart: float, least: float) -> float:
    return max(_nice((scale.high - scale.low) * least_apart / max(cells - 1, 1)), least)


def _linear_ticks(scale: Scale, step: float, cells: int, dots_each: int) -> dict[int, str]:
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return {
        scale.cell(number * step, cells, dots_each): short(number * step or 0.0, decimals)
        for number in range(first, last + 1)
    }


def _nice(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (*_NICE, 10) if factor * power >= least * (1 - 1e-9))


def _round_values(scale: Scale) -> Iterable[float]:
    """Powers of ten before the values between them."""
    largest = max(abs(scale.low), abs(scale.high))
    top = math.floor(math.log10(largest))
    powers = [10.0**power for power in range(top, top - _MOST_DECADES, -1)]
    sizes = [factor * power for factor in (1, 5, 2) for power in powers]
    candidates = [0.0, *(sign * size for size in sizes for sign in (1, -1))]
    if scale.low > 0:
        candidates = sizes
    return [value for value in candidates if scale.low <= value <= scale.high]
