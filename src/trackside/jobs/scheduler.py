"""Starts queued jobs while a server runs: `queue.py` decides which is next.

The folders are authoritative: all state here is rebuilt from them after a crash. Of several servers
of one home, the one that holds the lock works; the others wait for it.
"""

import fcntl
import heapq
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from trackside.errors import JobNotFound
from trackside.jobs import pending_jobs
from trackside.jobs.machine_resources import MachineResources
from trackside.jobs.pending_jobs import Begun
from trackside.jobs.queue import Entry, ForResources, LimitOf, Queue
from trackside.jobs.records import UNREADABLE, Record, read_folder
from trackside.jobs.start_supervisor import Launcher
from trackside.quick_dataclass import dataclass
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.status import Secondary
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

SCAN_SECONDS = 2.0
"""Interval between scans of all unfinished jobs' folders, for changes by other processes."""
QUICK_SECONDS = 0.05
"""Interval between checks of running jobs while a job is queued."""
AGAIN_SECONDS = 2.0
"""Pause before a job that could not be started is retried."""
_REMEMBERED = 10_000
_CLOSE_SECONDS = 10.0


class SchedulerSignal:
    """Notifies this process's scheduler of jobs; those of other processes are found by scanning."""

    def __init__(self) -> None:
        self._names: deque[str] = deque(maxlen=_REMEMBERED)
        self.on_notify: Callable[[], None] = lambda: None

    def notify(self, name: str) -> None:
        self._names.append(name)
        self.on_notify()

    def take(self) -> set[str]:
        """The names since the last call."""
        names = set()
        with suppress(IndexError):
            while True:
                names.add(self._names.popleft())
        return names


@dataclass(frozen=True, slots=True)
class Plan:
    """The scheduler's inputs."""

    home: Home
    launcher: Launcher
    capacity: MachineResources
    gpus: tuple[str, ...]
    """GPU names: as many as the capacity has."""
    limit_of: LimitOf
    unfinished: Callable[[], Iterable[str]]
    """Jobs that may be unfinished."""


class Scheduler:
    """Owns one thread, inside the block."""

    def __init__(self, plan: Plan, signal: SchedulerSignal) -> None:
        self._plan = plan
        self._signal = signal
        self._queue = Queue(plan.capacity)
        self._versions: dict[str, tuple[int, int]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._again: dict[str, float] = {}
        self._scanned_at: float | None = None
        self._settled = -1
        self._folders_at: int | None = None
        self._lock: int | None = None
        self._worker = Worker(
            "trackside-scheduler",
            self._tick,
            interval=SCAN_SECONDS,
            retry_seconds=(AGAIN_SECONDS, 5 * AGAIN_SECONDS),
            at_end=self._release,
            problem="jobs could not be scheduled; trying again",
        )
        signal.on_notify = self._worker.wake

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Running jobs continue; queued ones are left to the next server."""
        self._worker.close(_CLOSE_SECONDS)

    def _tick(self) -> float:
        self._take_turn(self._signal.take())
        return self._pause()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def _pause(self) -> float:
        if not self._queue.waiting:
            return SCAN_SECONDS
        due = self._deadlines[0][0] - time.monotonic() if self._deadlines else SCAN_SECONDS
        return max(0.0, min(QUICK_SECONDS, due))

    def _take_turn(self, names: set[str]) -> None:
        if not self._is_at_work():
            self._scanned_at = time.monotonic()
            return
        for name in names:
            self._inspect(name)
        if self._scanned_at is None or time.monotonic() - self._scanned_at >= SCAN_SECONDS:
            self._inspect_all()
        if not self._queue.waiting:
            return
        for entry in self._queue.running:
            self._inspect(entry.name)
        self._end_overdue()
        self._start()

    def _is_at_work(self) -> bool:
        """The lock is released when its holder dies: another server then takes over."""
        if self._lock is not None:
            return True
        path = self._plan.home.server.scheduler_lock
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
        self._lock = descriptor
        return True

    # Scanning

    def _inspect_all(self) -> None:
        """New folders, and each known job: others may have stopped, tagged or started it."""
        known = [entry.name for entry in (*self._queue.waiting, *self._queue.running)]
        for name in known:
            self._inspect(name)
        if self._folders_have_changed():
            for name in self._plan.unfinished():
                if name not in self._queue:
                    self._inspect(name)
        self._scanned_at = time.monotonic()
        self._settled = -1  # a limit may have been changed

    def _folders_have_changed(self) -> bool:
        changed_at = self._plan.home.jobs_changed_at()
        if changed_at is not None and changed_at == self._folders_at:
            return False
        self._folders_at = changed_at
        return True

    def _inspect(self, name: str) -> None:
        """Add or remove a job, according to its folder."""
        folder = self._plan.home.job(name)
        try:
            version = Journal(folder.journal).version_stamp()
            if version == self._versions.get(name):
                return
            record = read_folder(folder)
        except JobNotFound:
            return self._forget(name)
        except UNREADABLE as error:
            logger.warning("job %s cannot be scheduled: %r", name, error)
            return self._forget(name)
        if record.history.state.is_final:
            return self._forget(name)
        entry = Entry.of(record, self._plan.capacity)
        if not record.history.state.is_queued:
            self._queue.hold(entry)
        else:
            if name not in self._versions:
                self._note_deadline(record)
            self._queue.wait(entry)
        self._versions[name] = version
        return None

    def _forget(self, name: str) -> None:
        self._queue.drop(name)
        self._versions.pop(name, None)
        self._again.pop(name, None)

    # Waiting too long

    def _note_deadline(self, record: Record) -> None:
        """By the monotonic clock, including the time before this process first saw the job."""
        longest = _longest_wait(record)
        if longest is not None:
            deadline = time.monotonic() + longest - record.history.waited_seconds()
            heapq.heappush(self._deadlines, (deadline, record.spec.name))

    def _end_overdue(self) -> None:
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            _, name = heapq.heappop(self._deadlines)
            folder = self._plan.home.job(name)
            with suppress(*UNREADABLE):
                longest = _longest_wait(read_folder(folder))
                message = f"Not started within {longest} seconds"
                pending_jobs.end(folder, self._plan.home, Secondary.MAX_WAIT_EXCEEDED, message)
            self._inspect(name)

    # Starting

    def _start(self) -> None:
        now = time.monotonic()
        again = {name: at for name, at in self._again.items() if at > now}
        if self._queue.num_changes == self._settled and len(again) == len(self._again):
            return  # nothing has changed since no job could be started
        self._again = again
        for entry in self._startable(frozenset(again)):
            if self._worker.is_closing:
                return
            self._begin(entry)
        self._settled = self._queue.num_changes

    def _startable(self, without: frozenset[str]) -> list[Entry]:
        found = []
        for entry, wait in self._queue.turns(self._plan.limit_of, without=without):
            if isinstance(wait, ForResources) and not self._queue.has_uncounted:
                break
            if wait is None:
                found.append(entry)
        return found

    def _begin(self, entry: Entry) -> None:
        name, plan = entry.name, self._plan
        begun = Begun.NOT_YET
        try:
            folder = plan.home.job(name)
            begun = pending_jobs.begin(folder, plan.home, plan.launcher, self._gpus_for(entry))
        except UNREADABLE as error:
            logger.warning("job %s is not started yet: %r", name, error)
        if begun is Begun.NOT_YET:
            self._again[name] = time.monotonic() + AGAIN_SECONDS
        self._inspect(name)

    def _gpus_for(self, entry: Entry) -> list[str] | None:
        """None if there are none to assign."""
        if not self._plan.gpus or not entry.is_counted:
            return None
        held = {name for running in self._queue.running for name in running.gpus}
        return [name for name in self._plan.gpus if name not in held][: entry.needs.gpus]


def _longest_wait(record: Record) -> int | None:
    stopping = record.spec.stopping
    limits = [stopping.max_wait_seconds, stopping.max_pending_seconds]
    return min((limit for limit in limits if limit is not None), default=None)
