"""The metrics of a server at /metrics: its requests, its jobs, its process."""

import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import trackside
from trackside.api.admission import Admission, Cut
from trackside.api.call import Exchange
from trackside.api.fair_pool import ThreadPools
from trackside.api.upkeep import Upkeep
from trackside.errors import TracksideError
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.records.status import Secondary, Status

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MOST_UNFINISHED = 100_000
_OTHER = "other"
"""The label of unknown services and operations: labels that clients choose would fill the memory.
"""


class Telemetry:
    """`count` is quick and thread-safe; `scrape` queries the jobs and blocks."""

    def __init__(
        self, jobs: Jobs, upkeep: Upkeep, admission: Admission, pools: ThreadPools
    ) -> None:
        self._registry = registry = _Registry()
        self._requests = Counter(
            "trackside_requests_total",
            "Requests that were answered, by HTTP status.",
            ("service", "operation", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "trackside_request_seconds",
            "From a request's first byte to the last of its response.",
            ("service", "operation"),
            buckets=SECONDS,
            registry=registry,
        )
        self._received = Counter(
            "trackside_received_bytes_total", "Request bodies.", ("service",), registry=registry
        )
        self._sent = Counter(
            "trackside_sent_bytes_total", "Response bodies.", ("service",), registry=registry
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram, Counter, Counter]] = {}
        """Cached: finding a series by its labels takes longer than counting."""
        registry.register(_ServerState(jobs, upkeep, admission, pools))
        ProcessCollector(registry=registry)

    def count(self, exchange: Exchange) -> None:
        key = exchange.service or _OTHER, exchange.operation or _OTHER, exchange.status
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._labelled(*key)
        requests, seconds, received, sent = series
        requests.inc()
        seconds.observe(exchange.seconds)
        received.inc(exchange.bytes_in)
        sent.inc(exchange.bytes_out)

    def scrape(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _labelled(
        self, service: str, operation: str, status: int
    ) -> tuple[Counter, Histogram, Counter, Counter]:
        return (
            self._requests.labels(service, operation, str(status)),
            self._seconds.labels(service, operation),
            self._received.labels(service),
            self._sent.labels(service),
        )


class _Registry(CollectorRegistry):
    """Without the `_created` series, which the library can only turn off for a whole process."""

    def collect(self) -> Iterable[Metric]:
        for family in super().collect():
            family.samples = [each for each in family.samples if not _is_created(each.name)]
            yield family


def _is_created(name: str) -> bool:
    return name.endswith("_created")


class _ServerState(Collector):
    """What is read from the server's parts at each scrape."""

    def __init__(
        self, jobs: Jobs, upkeep: Upkeep, admission: Admission, pools: ThreadPools
    ) -> None:
        self._jobs = jobs
        self._upkeep = upkeep
        self._admission = admission
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        version = {"version": trackside.__version__}
        yield InfoMetricFamily("trackside", "This server.", value=version)
        yield from self._limits()
        yield from self._job_counts()
        yield GaugeMetricFamily(
            "trackside_upkeep_age_seconds",
            "Since the last upkeep round of all jobs finished.",
            round(self._upkeep.age_seconds, 3),
        )
        yield GaugeMetricFamily(
            "trackside_upkeep_round_seconds",
            "How long the last upkeep round took.",
            round(self._upkeep.round_seconds, 6),
        )

    def _limits(self) -> Iterator[Metric]:
        num_connections, cuts = self._admission.num_connections, dict(self._admission.cuts)
        yield GaugeMetricFamily("trackside_connections", "Open connections.", num_connections)
        cut_off = CounterMetricFamily(
            "trackside_cut_off_total",
            "Connections and requests that were ended at a limit.",
            labels=["reason"],
        )
        for cut in Cut:
            cut_off.add_metric([str(cut)], cuts.get(cut, 0))
        yield cut_off
        waiting = {"quick": self._pools.quick.num_waiting, "heavy": self._pools.heavy.num_waiting}
        yield _gauges("trackside_waiting_calls", "Calls that wait for a thread.", "lane", waiting)

    def _job_counts(self) -> Iterator[Metric]:
        """Left out while the database is unavailable: an unknown count is not 0."""
        try:
            # The page first: it also updates the index that is counted.
            rows = self._jobs.page(Page(status=Status.IN_PROGRESS, limit=_MOST_UNFINISHED))
            by_status = self._jobs.num_by_status()
        except TracksideError:
            return
        running = Tally(row.secondary for row in rows)
        queued = [row.created for row in rows if row.secondary == Secondary.PENDING]
        oldest = time.time() - min(queued) if queued else 0.0
        yield _gauges(
            "trackside_jobs",
            "Jobs by TrainingJobStatus.",
            "status",
            {str(each): by_status.get(each, 0) for each in Status},
        )
        yield _gauges(
            "trackside_jobs_in_progress",
            "Jobs in progress by SecondaryStatus.",
            "secondary",
            {each: running[each] for each in sorted(running)},
        )
        yield GaugeMetricFamily("trackside_queue_length", "Queued jobs.", len(queued))
        yield GaugeMetricFamily(
            "trackside_queue_oldest_seconds",
            "For how long the oldest queued job has waited.",
            round(max(0.0, oldest), 3),
        )


def _gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family
