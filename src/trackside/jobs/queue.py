"""The order of queued jobs, and the resources that running jobs hold.

Only decides; `scheduler.py` reads and acts. First come, first served within a priority.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from trackside.jobs.machine_resources import MachineResources, amount
from trackside.jobs.owner_limit import Limit
from trackside.jobs.records import Record
from trackside.jobs.resource_request import asked_by, is_counted, needs_of, priority_of
from trackside.jobs.update_job import tags_of
from trackside.quick_dataclass import dataclass
from trackside.records.layout import JobFolder
from trackside.records.placed import Placed
from trackside.records.status import Secondary

LimitOf = Callable[[str], Limit]
"""The limits of an owner's jobs."""


def no_limit(who: str) -> Limit:
    return Limit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job that is queued, or that holds its resources."""

    name: str
    needs: MachineResources
    asked: MachineResources = MachineResources()
    """The explicitly requested part of it, not derived from the instance type."""
    is_counted: bool = True
    """Whether it uses this machine's capacity: not where another scheduler places it."""
    who: str = ""
    """Whose limit on jobs it counts against; empty if not submitted through a server."""
    owner: str = ""
    """Its owner, whose limits on cores and GPUs it counts against."""
    key: str = ""
    """The id of the access key that submitted it."""
    priority: int = 0
    since: float = 0.0
    """When it was queued, or else created. Seconds since the epoch."""
    status: str = Secondary.PENDING
    gpus: tuple[str, ...] = ()
    """The GPUs it holds, by name."""

    @property
    def order(self) -> tuple[int, float, str]:
        return -self.priority, self.since, self.name

    @classmethod
    def of(cls, record: Record, capacity: MachineResources) -> "Entry":
        history = record.history
        pending = history.first(Secondary.PENDING)
        needs, asked = needs_of(record.spec), asked_by(record.spec)
        counted = is_counted(record.spec)
        return cls(
            name=record.spec.name,
            needs=needs.clipped(capacity) if counted else needs,
            asked=asked.clipped(capacity) if counted else asked,
            is_counted=counted,
            who=history.submitted.get("who", ""),
            owner=record.submitter.owner,
            key=record.submitter.key,
            priority=priority_of(record.spec.options, tags_of(record)),
            since=history.created if pending is None else pending,
            status=history.state.secondary,
            gpus=() if record.folder is None else gpus_of(record.folder),
        )


def gpus_of(folder: JobFolder) -> tuple[str, ...]:
    """The GPUs assigned to its hosts when it started."""
    placed = Placed.read(folder)
    hosts = placed.hosts.values() if placed is not None else ()
    return tuple(name for host in hosts for name in host.gpus or ())


@dataclass(frozen=True, slots=True)
class ForResources:
    """It is next, but resources are insufficient."""

    what: str
    needed: float
    free: float
    total: float

    def __str__(self) -> str:
        free, total = f"{max(self.free, 0):.4g}", f"{self.total:.4g}"
        return f"Waiting for {amount(self.what, self.needed)}: {free} of {total} free"


@dataclass(frozen=True, slots=True)
class ForLimit:
    """Jobs behind it may pass."""

    who: str
    limit: int

    def __str__(self) -> str:
        return f"Waiting for a job of {self.who!r} to end: the limit is {self.limit} at a time"


@dataclass(frozen=True, slots=True)
class ForShare:
    """Jobs behind it may pass, too."""

    owner: str
    what: str
    limit: int
    is_too_large: bool = False
    """It exceeds the owner's whole limit, which was lowered since it was submitted."""

    def __str__(self) -> str:
        most = amount(self.what, self.limit)
        if self.is_too_large:
            return f"Waiting for ever: it needs more than its owner's limit of {most}"
        return f"Waiting for a job of {self.owner!r} to end: owner's limit of {most} reached"


@dataclass(frozen=True, slots=True)
class ForTurn:
    """No job passes one that waits for resources, or that one might wait for ever."""

    behind: str

    def __str__(self) -> str:
        return f"Waiting for its turn, behind {self.behind!r}"


Wait = ForResources | ForLimit | ForShare | ForTurn


class Queue:
    """Not thread-safe."""

    def __init__(self, capacity: MachineResources) -> None:
        self.capacity = capacity
        self._entries: dict[str, Entry] = {}
        self._order: list[Entry] = []
        self._running: dict[str, Entry] = {}
        self._uncounted: set[str] = set()
        self.num_changes = 0

    @property
    def waiting(self) -> Sequence[Entry]:
        return self._order

    @property
    def running(self) -> Sequence[Entry]:
        return list(self._running.values())

    @property
    def has_uncounted(self) -> bool:
        """Whether a queued job waits for no resources of this machine."""
        return bool(self._uncounted)

    @property
    def free(self) -> MachineResources:
        """Negative if jobs run that were not queued: those of `trackside run`."""
        used = (entry.needs for entry in self.running if entry.is_counted)
        return self.capacity - sum(used, MachineResources())

    def __contains__(self, name: str) -> bool:
        return name in self._entries or name in self._running

    def wait(self, entry: Entry) -> None:
        """Queue it; if it is queued already, update its priority."""
        self.drop(entry.name)
        self._entries[entry.name] = entry
        insort(self._order, entry, key=_order)
        if not entry.is_counted:
            self._uncounted.add(entry.name)

    def hold(self, entry: Entry) -> None:
        self.drop(entry.name)
        self._running[entry.name] = entry

    def drop(self, name: str) -> None:
        self.num_changes += 1
        self._running.pop(name, None)
        self._uncounted.discard(name)
        entry = self._entries.pop(name, None)
        if entry is not None:
            del self._order[bisect_left(self._order, entry.order, key=_order)]

    def turns(
        self, limit_of: LimitOf = no_limit, *, without: frozenset[str] = frozenset()
    ) -> Iterator[tuple[Entry, Wait | None]]:
        """Why each job waits, in order; None for one that can be started now.

        After the first that waits for resources none of this machine's can be started. `without`
        are skipped.
        """
        limit_of = cache(limit_of)  # called once per owner, not per job
        free = self.free
        shares = _Shares(self._running.values(), limit_of)
        head: str | None = None
        for entry in self._order:
            if entry.name in without:
                continue
            if (beyond := shares.beyond(entry)) is not None:
                yield entry, beyond
            elif not entry.is_counted:
                shares.add(entry)
                yield entry, None
            elif head is not None:
                yield entry, ForTurn(head)
            elif (what := entry.needs.lacking(free)) is not None:
                head = entry.name
                amounts = [getattr(room, what) for room in (entry.needs, free, self.capacity)]
                yield entry, ForResources(what, *amounts)
            else:
                free -= entry.needs
                shares.add(entry)
                yield entry, None


class _Shares:
    """Each owner's usage and limits."""

    def __init__(self, running: Iterable[Entry], limit_of: LimitOf) -> None:
        self._limit_of = limit_of
        self._num_jobs: Counter[str] = Counter()
        self._used: dict[str, MachineResources] = {}
        for entry in running:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        self._num_jobs[entry.who] += 1
        used = self._used.get(entry.owner, MachineResources())
        self._used[entry.owner] = used + self._charge(entry)

    def beyond(self, entry: Entry) -> ForLimit | ForShare | None:
        """The limit that the entry has to wait for."""
        most = self._limit_of(entry.who).jobs if entry.who else None
        if most and self._num_jobs[entry.who] >= most:
            return ForLimit(entry.who, most)
        limit, charge = self._limit_of(entry.owner), self._charge(entry)
        used = self._used.get(entry.owner, MachineResources())
        what = limit.lacking(used, charge)
        if what is None:
            return None
        is_too_large = limit.lacking(MachineResources(), charge) is not None
        return ForShare(entry.owner, what, getattr(limit, what), is_too_large)

    def _charge(self, entry: Entry) -> MachineResources:
        return self._limit_of(entry.owner).charge(entry.needs, entry.asked)


def _order(entry: Entry) -> tuple[int, float, str]:
    return entry.order
