"""Values of a job's metrics over time, as CloudWatch names them.

What a script printed and MetricDefinitions found, or what it put, is told by TrainingJobName; what
its machines did by Host, `<job>/<host>`. All are read from the curves that supervisors draw.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
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
    """Keeps what it has read of the jobs that were asked for last. Thread-safe."""

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

    def _open(self, places: Sequence[Location]) -> _Opened:
        key = tuple(place.uri for place in places)
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = _Opened([Follower(place) for place in places])
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
    is_told = numpy.isfinite(values)  # neither JSON nor CloudWatch has others
    times, values = times[is_told], values[is_told]
    order = numpy.argsort(times, kind="stable")
    return times[order], values[order]


def _summed(series: Sequence[Series]) -> Points:
    """Of figures that were taken at the same moments."""
    times, values = _joined(series)
    moments, places = numpy.unique(times, return_inverse=True)
    sums = numpy.zeros(len(moments))
    numpy.add.at(sums, places, values)
    return moments, sums
