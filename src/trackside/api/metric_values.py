"""Values of a job's metrics over time, as CloudWatch names them, and their statistics by period.

Metrics of a script, found by MetricDefinitions or put by it, have the dimension TrainingJobName;
those of its machines have Host, `<job>/<host>`. All are read from the curves that supervisors
write.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy

from trackside.curves.columns import Reals
from trackside.curves.event_reader import Follower, Series
from trackside.curves.machine_curves import CLOUDWATCH, FOLDER
from trackside.errors import DamagedJob, JobNotFound
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.storage.locate import Location

NAMESPACE = "/aws/sagemaker/TrainingJobs"
JOB, HOST = "TrainingJobName", "Host"
"""The names of the two dimensions; a metric has one of them."""

_MOST_KEPT = 16

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

Dimensions = Mapping[str, str]
Points = tuple[Reals, Reals]
"""Times in seconds since the epoch, in order, and values."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    dimension: str
    value: str
    """Of the dimension."""
    namespace: str = NAMESPACE


@dataclass(slots=True)
class _Opened:
    followers: Sequence[Follower]
    lock: Lock = field(default_factory=Lock)

    def series(self) -> list[Series]:
        with self.lock:
            for follower in self.followers:
                follower.update()
            return [s for follower in self.followers for s in follower.curves.scalars.values()]


class MetricValues:
    """Caches the curves of the most recently requested jobs. Thread-safe."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._opened: OrderedDict[tuple[str, ...], _Opened] = OrderedDict()
        self._lock = Lock()

    def points(self, namespace: str, name: str, dimensions: Dimensions) -> Points:
        """Only finite values; none when there is no such metric."""
        if JOB in dimensions:
            record = self._record(dimensions[JOB])
            found = self._series(record, "trackside")
            tag = curve_name(namespace, name, dimensions)
            return _joined([each for each in found if each.tag == tag])
        if namespace == NAMESPACE and set(dimensions) == {HOST} and name in CLOUDWATCH:
            job, _, host = dimensions[HOST].partition("/")
            found = self._series(self._record(job), FOLDER)
            mine = [each for each in found if each.run == host]
            return _summed([each for each in mine if CLOUDWATCH[name].matches(each.tag)])
        return _joined([])

    def metrics(self, job: str, namespace: str = NAMESPACE) -> Iterator[Metric]:
        """In SageMaker's own namespace all of them; in another those that were put there."""
        record = self._record(job)
        if record is None:
            return
        before = curve_name(namespace, "", {})
        for name in sorted(self._jobs.metrics_of(record).totals):
            if name.startswith(before):
                yield Metric(name.removeprefix(before), JOB, job, namespace)
        if namespace != NAMESPACE:
            return
        found = {(each.run, each.tag) for each in self._series(record, FOLDER)}
        for host in record.spec.hosts:
            for name, figure in CLOUDWATCH.items():
                if any(run == host and figure.matches(tag) for run, tag in found):
                    yield Metric(name, HOST, f"{job}/{host}")

    def _record(self, job: str) -> Record | None:
        try:
            return self._jobs.record(job)
        except (JobNotFound, DamagedJob):
            return None

    def _series(self, record: Record | None, run: str) -> list[Series]:
        if record is None:
            return []
        return self._open(self._jobs.own_curve_places(record, run)).series()

    def _open(self, locations: Sequence[Location]) -> _Opened:
        key = tuple(location.uri for location in locations)
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = _Opened([Follower(location) for location in locations])
            self._opened.move_to_end(key)
            if len(self._opened) > _MOST_KEPT:
                self._opened.popitem(last=False)
        return opened


def curve_name(namespace: str, name: str, dimensions: Dimensions) -> str:
    """Of what has the job among its dimensions: `loss`, `MyModel/loss (Fold=2)`."""
    whole = name if namespace == NAMESPACE else f"{namespace}/{name}"
    others = ", ".join(f"{k}={v}" for k, v in sorted(dimensions.items()) if k != JOB)
    return f"{whole} ({others})" if others else whole


def _joined(series: Sequence[Series]) -> Points:
    """Of several hosts, by time."""
    if not series:
        return numpy.empty(0), numpy.empty(0)
    times = numpy.concatenate([each.times for each in series])
    values = numpy.concatenate([each.values for each in series])
    is_finite = numpy.isfinite(values)  # neither JSON nor CloudWatch has others
    times, values = times[is_finite], values[is_finite]
    order = numpy.argsort(times, kind="stable")
    return times[order], values[order]


def _summed(series: Sequence[Series]) -> Points:
    """Of figures that were taken at the same moments."""
    times, values = _joined(series)
    moments, locations = numpy.unique(times, return_inverse=True)
    sums = numpy.zeros(len(moments))
    numpy.add.at(sums, locations, values)
    return moments, sums


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
