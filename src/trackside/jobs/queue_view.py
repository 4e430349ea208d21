"""Data for `trackside queue`: read from the folders, whether a server runs or not."""

import fcntl
import os
import time
from collections.abc import Iterable

from trackside.jobs.machine_resources import MachineResources
from trackside.jobs.queue import Entry, LimitOf, Queue
from trackside.jobs.records import UNREADABLE, read_folder
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home


@dataclass(frozen=True, slots=True)
class Waiter:
    position: int
    entry: Entry
    why: str


@dataclass(frozen=True, slots=True)
class QueueView:
    capacity: MachineResources
    free: MachineResources
    is_served: bool
    """Whether a server is running that starts queued jobs."""
    running: tuple[Entry, ...]
    """Oldest first."""
    waiting: tuple[Waiter, ...]
    """In the order in which they are to start."""
    at: float
    """When this was read, by the machine's clock: seconds since the epoch."""


def look(
    home: Home, names: Iterable[str], capacity: MachineResources, limit_of: LimitOf
) -> QueueView:
    """`names` are those of possibly unfinished jobs."""
    queue = Queue(capacity)
    for name in names:
        try:
            record = read_folder(home.job(name))
        except UNREADABLE:
            continue
        if record.history.state.is_queued:
            queue.wait(Entry.of(record, capacity))
        elif not record.history.state.is_final:
            queue.hold(Entry.of(record, capacity))
    is_served = is_at_work(home)
    at_once = "Starting" if is_served else "Waiting for a server: none runs here"
    turns = enumerate(queue.turns(limit_of), 1)
    waiting = [Waiter(number, entry, str(wait or at_once)) for number, (entry, wait) in turns]
    running = sorted(queue.running, key=lambda entry: (entry.since, entry.name))
    now = time.time()
    return QueueView(capacity, queue.free, is_served, tuple(running), tuple(waiting), now)


def is_at_work(home: Home) -> bool:
    """Whether a server of this home starts queued jobs."""
    try:
        descriptor = os.open(home.server.scheduler_lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
