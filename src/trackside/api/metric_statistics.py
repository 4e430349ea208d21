"""Statistics over periods, as CloudWatch reckons them. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy

from trackside.api.metric_values import Points
from trackside.curves.columns import Reals

MOST_DATAPOINTS = 1440
SHORT_PERIODS = (1, 5, 10, 20, 30)
"""Seconds; all others are whole minutes."""
MINUTE = 60

_REDUCED: dict[str, Callable[[Reals], float]] = {
    "SampleCount": lambda values: float(len(values)),
    "Average": lambda values: float(values.mean()),
    "Sum": lambda values: float(values.sum()),
    "Minimum": lambda values: float(values.min()),
    "Maximum": lambda values: float(values.max()),
}
STATISTICS = tuple(_REDUCED)
Datapoint = tuple[float, list[float]]
"""The start of a period, and its statistics."""
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,10})?|100)")


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds since the epoch; the end is not inside."""

    start: float
    end: float
    seconds: int

    @property
    def first(self) -> float:
        """Starts are rounded down to the minute, or to a short period."""
        grain = self.seconds if self.seconds in SHORT_PERIODS else MINUTE
        return self.start // grain * grain

    @property
    def count(self) -> int:
        return -int((self.first - self.end) // self.seconds)


def is_period(seconds: int) -> bool:
    return seconds in SHORT_PERIODS or (seconds > 0 and seconds % MINUTE == 0)


def is_statistic(name: str) -> bool:
    return name in _REDUCED or _PERCENTILE.fullmatch(name) is not None


def datapoints(points: Points, periods: Periods, statistics: Sequence[str]) -> Iterator[Datapoint]:
    """Of each period that has values, in order; statistics in the order given."""
    times, values = points
    inside = (times >= periods.first) & (times < periods.end)
    times, values = times[inside], values[inside]
    if not len(times):
        return
    numbers = (times - periods.first) // periods.seconds
    different, begins = numpy.unique(numbers, return_index=True)
    for number, part in zip(different, numpy.split(values, begins[1:]), strict=True):
        moment = periods.first + float(number) * periods.seconds
        yield moment, [_reduced(part, name) for name in statistics]


def _reduced(values: Reals, statistic: str) -> float:
    if statistic in _REDUCED:
        return _REDUCED[statistic](values)
    return float(numpy.percentile(values, float(statistic[1:])))
