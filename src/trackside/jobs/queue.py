"""Whose turn it is: the jobs that wait, in order, and those that hold a part of the machine.

Decides only; `scheduler.py` looks and acts. First come, first served within a priority.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from trackside.jobs.amendments import tags_of
from trackside.jobs.needs import needs_of, priority_of
from trackside.jobs.placing import FIRST_ATTEMPT, Placed
from trackside.jobs.records import Record
from trackside.jobs.room import Room, amount
from trackside.layout import JobFolder
from trackside.quick_dataclass import dataclass
from trackside.status import Secondary

LimitOf = Callable[[str], int | None]
"""How many jobs of somebody may run at a time; None is any number."""


def no_limit(who: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job that waits, or that holds what it needs."""

    name: str
    needs: Room
    who: str = ""
    """Whose limit it counts against; nobody's when it did not come through a server."""
    owner: str = ""
    """Whom it belongs to."""
    key: str = ""
    """The id of the access key that submitted it."""
    priority: int = 0
    since: float = 0.0
    """When it began to wait, or else was created. Seconds since the epoch."""
    status: str = Secondary.PENDING
    gpus: tuple[str, ...] = ()
    """Those that it holds, by name."""

    @property
    def order(self) -> tuple[int, float, str]:
        return -self.priority, self.since, self.name

    @classmethod
    def of(cls, record: Record, capacity: Room) -> "Entry":
        history = record.history
        pending = history.first(Secondary.PENDING)
        return cls(
            name=record.spec.name,
            needs=needs_of(record.spec).clipped(capacity),
            who=history.submitted.get("who", ""),
            owner=record.submitter.owner,
            key=record.submitter.key,
            priority=priority_of(record.spec.options, tags_of(record)),
            since=history.created if pending is None else pending,
            status=history.state.secondary,
            gpus=() if record.folder is None else gpus_of(record.folder),
        )


def gpus_of(folder: JobFolder) -> tuple[str, ...]:
    """That were given to its hosts when it began."""
    paths = folder.hosts.glob(f"*/{FIRST_ATTEMPT}/placed.json")
    placed = [Placed.read(path) for path in sorted(paths)]
    return tuple(name for each in placed if each is not None for name in each.gpus or ())


@dataclass(frozen=True, slots=True)
class ForRoom:
    """It is its turn, but there is too little of something."""

    what: str
    needed: float
    free: float
    total: float

    def __str__(self) -> str:
        free, total = f"{max(self.free, 0):.4g}", f"{self.total:.4g}"
        return f"Waiting for {amount(self.what, self.needed)}: {free} of {total} free"


@dataclass(frozen=True, slots=True)
class ForLimit:
    """Those behind it may pass."""

    who: str
    limit: int

    def __str__(self) -> str:
        return f"Waiting for a job of {self.who!r} to end: the limit is {self.limit} at a time"


@dataclass(frozen=True, slots=True)
class ForTurn:
    """Nobody passes one that waits for room, or it might wait for ever."""

    behind: str

    def __str__(self) -> str:
        return f"Waiting for its turn, behind {self.behind!r}"


Wait = ForRoom | ForLimit | ForTurn


class Queue:
    """Not for several threads at once."""

    def __init__(self, capacity: Room) -> None:
        self.capacity = capacity
        self._entries: dict[str, Entry] = {}
        self._order: list[Entry] = []
        self._running: dict[str, Entry] = {}
        self.num_changes = 0

    @property
    def waiting(self) -> Sequence[Entry]:
        return self._order

    @property
    def running(self) -> Sequence[Entry]:
        return list(self._running.values())

    @property
    def free(self) -> Room:
        """Below zero where jobs run that did not ask: those of `trackside run`."""
        return self.capacity - sum((entry.needs for entry in self.running), Room())

    def __contains__(self, name: str) -> bool:
        return name in self._entries or name in self._running

    def wait(self, entry: Entry) -> None:
        """Let it wait; when it does so already, with another priority perhaps."""
        self.drop(entry.name)
        self._entries[entry.name] = entry
        insort(self._order, entry, key=_order)

    def hold(self, entry: Entry) -> None:
        self.drop(entry.name)
        self._running[entry.name] = entry

    def drop(self, name: str) -> None:
        self.num_changes += 1
        self._running.pop(name, None)
        entry = self._entries.pop(name, None)
        if entry is not None:
            del self._order[bisect_left(self._order, entry.order, key=_order)]

    def turns(
        self, limit_of: LimitOf = no_limit, *, without: frozenset[str] = frozenset()
    ) -> Iterator[tuple[Entry, Wait | None]]:
        """Why each job waits, in order; None for one that can be started now.

        After the first that waits for room none can be started. `without` are not looked at.
        """
        free = self.free
        counts = Counter(entry.who for entry in self._running.values() if entry.who)
        head: str | None = None
        for entry in self._order:
            if entry.name in without:
                continue
            limit = limit_of(entry.who) if entry.who else None
            if limit is not None and counts[entry.who] >= limit:
                yield entry, ForLimit(entry.who, limit)
            elif head is not None:
                yield entry, ForTurn(head)
            elif (what := entry.needs.lacking(free)) is not None:
                head = entry.name
                amounts = [getattr(room, what) for room in (entry.needs, free, self.capacity)]
                yield entry, ForRoom(what, *amounts)
            else:
                free -= entry.needs
                counts[entry.who] += 1
                yield entry, None


def _order(entry: Entry) -> tuple[int, float, str]:
    return entry.order
