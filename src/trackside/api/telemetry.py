"""What a server tells about itself at /metrics: its requests, its jobs, its process."""

import os
import time
from collections import Counter as Tally
from collections.abc import Iterator

import psutil

import trackside
from trackside.api.admission import Admission, Cut
from trackside.api.call import Exchange
from trackside.api.exposition import Counter, Family, Histogram, page
from trackside.api.fair_pool import Lanes
from trackside.api.upkeep import Upkeep
from trackside.errors import TracksideError
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.records.status import Secondary, Status

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MOST_UNFINISHED = 100_000
_OTHER = "other"
"""What is not known here has one name: labels that strangers choose would fill the memory."""


class Telemetry:
    """`count` is quick and thread-safe; `told` looks at the jobs and blocks."""

    def __init__(self, jobs: Jobs, upkeep: Upkeep, gate: Admission, lanes: Lanes) -> None:
        self._jobs = jobs
        self._upkeep = upkeep
        self._gate = gate
        self._lanes = lanes
        self._process = psutil.Process()
        self._requests = Counter(
            "trackside_requests_total",
            "Requests that were answered, by HTTP status.",
            ("service", "operation", "code"),
        )
        self._seconds = Histogram(
            "trackside_request_seconds",
            "From a request's first byte to the last of its answer.",
            ("service", "operation"),
            SECONDS,
        )
        self._received = Counter(
            "trackside_received_bytes_total", "Bodies of requests.", ("service",)
        )
        self._sent = Counter("trackside_sent_bytes_total", "Bodies of answers.", ("service",))

    def count(self, exchange: Exchange) -> None:
        service, operation = exchange.service or _OTHER, exchange.operation or _OTHER
        self._requests.add(service, operation, str(exchange.status))
        self._seconds.observe(service, operation, value=exchange.seconds)
        self._received.add(service, amount=exchange.bytes_in)
        self._sent.add(service, amount=exchange.bytes_out)

    def told(self) -> bytes:
        return page(
            [
                Family("trackside_info", "This server.", [({"version": trackside.__version__}, 1)]),
                self._requests,
                self._seconds,
                self._received,
                self._sent,
                *self._of_limits(),
                *self._of_jobs(),
                *self._of_upkeep(),
                *self._of_process(),
            ]
        )

    def _of_limits(self) -> Iterator[Family]:
        num_guests, cuts = self._gate.num_guests, dict(self._gate.cuts)
        yield Family("trackside_connections", "Open connections.", [({}, num_guests)])
        yield Family(
            "trackside_cut_off_total",
            "Connections and requests that were ended at a limit.",
            [({"reason": str(each)}, cuts.get(each, 0)) for each in Cut],
            "counter",
        )
        waiting = {"quick": self._lanes.quick.num_waiting, "heavy": self._lanes.heavy.num_waiting}
        yield Family(
            "trackside_waiting_calls",
            "Calls that wait for a thread.",
            [({"lane": lane}, count) for lane, count in waiting.items()],
        )

    def _of_jobs(self) -> Iterator[Family]:
        """Left out while the database is away: what is not known is not 0."""
        try:
            # The page first: it also brings what is counted up to date.
            rows = self._jobs.page(Page(status=Status.IN_PROGRESS, limit=_MOST_UNFINISHED))
            by_status = self._jobs.num_by_status()
        except TracksideError:
            return
        running = Tally(row.secondary for row in rows)
        queued = [row.created for row in rows if row.secondary == Secondary.PENDING]
        yield Family(
            "trackside_jobs",
            "Jobs by TrainingJobStatus.",
            [({"status": str(each)}, by_status.get(each, 0)) for each in Status],
        )
        yield Family(
            "trackside_jobs_in_progress",
            "Jobs in progress by SecondaryStatus.",
            [({"secondary": each}, running[each]) for each in sorted(running)],
        )
        yield Family("trackside_queue_length", "Jobs that wait for room.", [({}, len(queued))])
        oldest = time.time() - min(queued) if queued else 0.0
        yield Family(
            "trackside_queue_oldest_seconds",
            "For how long the job has waited that waits longest.",
            [({}, round(max(0.0, oldest), 3))],
        )

    def _of_upkeep(self) -> Iterator[Family]:
        yield Family(
            "trackside_upkeep_age_seconds",
            "Since all jobs were last looked after.",
            [({}, round(self._upkeep.age_seconds, 3))],
        )
        yield Family(
            "trackside_upkeep_round_seconds",
            "How long it took the last time.",
            [({}, round(self._upkeep.round_seconds, 6))],
        )

    def _of_process(self) -> Iterator[Family]:
        """Under the names that Prometheus' own libraries use."""
        with self._process.oneshot():
            times = self._process.cpu_times()
            memory = self._process.memory_info()
            started = self._process.create_time()
        figures = (
            ("process_cpu_seconds_total", "CPU time.", times.user + times.system, "counter"),
            ("process_resident_memory_bytes", "Memory in RAM.", memory.rss, "gauge"),
            ("process_virtual_memory_bytes", "Address space.", memory.vms, "gauge"),
            ("process_open_fds", "Open files and sockets.", self._process.num_fds(), "gauge"),
            ("process_max_fds", "How many it may open.", os.sysconf("SC_OPEN_MAX"), "gauge"),
            ("process_start_time_seconds", "Since the epoch.", started, "gauge"),
        )
        for name, help, value, kind in figures:
            yield Family(name, help, [({}, value)], kind)
