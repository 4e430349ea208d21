"""The hosts of one job that share nothing but a store, in a simulated world: what they keep on
their disks, what their supervisors do, and what a store, a network and a placement do to them.

`trackside.coordination.mirror_steps` decides; everything else here is a small model. The checks
that must hold at every moment are where they can break; `test_coordination` has those of the end.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from trackside.coordination import mirror_steps
from trackside.coordination.documents import (
    EPOCH,
    JOURNAL,
    STOP,
    JournalCopy,
    StoredRequest,
    request_name,
)
from trackside.coordination.mirror_state import (
    Close,
    Command,
    Conflict,
    Delete,
    Deleted,
    Deliver,
    Event,
    Failed,
    Get,
    Got,
    JournalRead,
    KeepGeneration,
    List,
    Listed,
    Plan,
    Put,
    Said,
    State,
    StopJob,
    Stored,
    Tick,
    Told,
    Unchanged,
    WriteJournal,
    WriteMeeting,
    WriteOrder,
    WriteRecord,
    is_lost,
)

MODEL = "model.tar.gz"
OLD_SECONDS = 3.0
"""How old a listing may be."""
FINAL = ("Completed", "Failed", "Stopped")


class Violation(AssertionError):
    """An invariant broke."""


class StoreAway(Exception):
    """No answer."""


class Crash(Exception):
    """The supervisor is killed at this line."""


class PutRefused(Exception):
    """Its condition does not hold."""


@dataclass
class World:
    random: Random
    now: float = 0.0
    is_faulty: bool = True
    faults: Counter[str] = field(default_factory=Counter)
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: Any = field(default_factory=itertools.count)

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._serial), action))

    def run(self, until: float, is_done: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= until and not is_done():
            self.now, _, action = heapq.heappop(self._queue)
            action()
        if not is_done():
            self.now = max(self.now, until)

    def happens(self, what: str, share: float) -> bool:
        """Whether this fault happens now."""
        if not self.is_faulty or self.random.random() >= share:
            return False
        self.faults[what] += 1
        return True


@dataclass
class Listing:
    at: float
    away_seconds: float
    names: dict[str, str]


class Store:
    """Objects with etags. Puts may be applied late, and listings may be old."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.objects: dict[str, tuple[str, Any]] = {}
        self.is_away = False
        self.has_conditions = world.random.random() < 0.5
        """For documents too: without them, of two writers the last one wins."""
        self.away_seconds = 0.0
        """In all, so far."""
        self._went_at = 0.0
        self._serial = itertools.count(1)
        self._listings: list[Listing] = []

    def go_away(self) -> None:
        if not self.is_away:
            self.is_away, self._went_at = True, self.world.now

    def come_back(self) -> None:
        if self.is_away:
            self.away_seconds = self.total_away()
            self.is_away = False

    def total_away(self) -> float:
        return self.away_seconds + (self.world.now - self._went_at if self.is_away else 0.0)

    def get(self, name: str) -> tuple[str, Any] | None:
        return self.objects.get(name)

    def put(self, name: str, content: Any, replaces: str | None = None) -> str:
        """`replaces` is an etag, '' for no object, or None for any."""
        found = self.objects.get(name)
        if replaces is not None and (found[0] if found else "") != replaces:
            raise PutRefused(name)
        self._check(name, found[1] if found else None, content)
        etag = f"e{next(self._serial)}"
        self.objects[name] = (etag, content)
        return etag

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def listing(self) -> "Listing":
        names = {
            name: etag for name, (etag, _) in self.objects.items() if name not in (JOURNAL, MODEL)
        }
        self._listings.append(Listing(self.world.now, self.total_away(), names))
        recent = [each for each in self._listings if self.world.now - each.at <= OLD_SECONDS]
        self._listings = recent
        is_old = self.world.happens("old listing", 0.02)
        return self.world.random.choice(recent) if is_old else recent[-1]

    def _check(self, name: str, before: Any, after: Any) -> None:
        if name == MODEL and before is not None and after < before:
            raise Violation(f"epoch {after} published over the result of epoch {before}")
        if name == JOURNAL and before is not None and before.is_final and after != before:
            raise Violation(f"the stored end {before} became {after}")
        if name == JOURNAL and before is not None and _groups(before) > _groups(after):
            raise Violation(f"a group of before replaced the journal of group {_groups(before)}")


@dataclass
class Disk:
    """What a host keeps when its supervisor is killed."""

    lines: list[str]
    records: dict[str, str] = field(default_factory=dict)
    order: dict[str, Any] | None = None
    meeting: dict[str, Any] | None = None
    generation: int = 0
    queue: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    phase: str = "preparing"
    ends_at: float | None = None
    has_joined: bool = False

    @property
    def journal(self) -> JournalCopy:
        return journal_of(self.lines)


def journal_of(lines: list[str]) -> JournalCopy:
    is_final = bool(lines) and lines[-1] in FINAL
    return JournalCopy(len(lines), is_final, "\n".join(lines))


def _groups(journal: JournalCopy) -> int:
    """How many groups were placed, as far as it knows."""
    return sum(line.startswith("Starting ") for line in journal.text.split("\n"))


class Host:
    """One machine of a group, with the supervisor that runs on it."""

    def __init__(
        self, world: World, store: Store, name: str, hosts: tuple[str, ...], epoch: int,
        lines: list[str], lease: float, *, is_endless: bool,
    ) -> None:  # fmt: skip
        """`is_endless`: its script ends when it is told to, and only then."""
        self.world, self.store, self.name = world, store, name
        self.hosts, self.epoch, self.lease = hosts, epoch, lease
        self.disk = Disk(list(lines))
        self.is_lead = name == hosts[0]
        self.is_cut_off = False
        self.is_frozen = False
        self.is_stalled = False
        self.is_gone = False
        """The machine is lost for good."""
        self.left: str = ""
        """Why its supervisor has left, in order."""
        self.plan: Plan | None = None
        self.state = State()
        self.writes = [(world.now, store.total_away())]
        """When it has written its document, and how long the store had been away by then."""
        self.looks = (world.now, store.total_away())
        """The same for the last time that it has looked at those of the others."""
        self.peers: dict[str, Host] = {}
        self._publishing: list[Any] = []
        self._skew = world.random.uniform(0, 1e6)
        self._life = 0
        random = world.random
        self.prepares_seconds = random.choice((0.5, 5.0))
        self.trains_seconds = 1e9 if is_endless else random.choice((1.0, 20.0, 90.0))
        self.fails = random.random() < 0.1

    # Life

    def start(self) -> None:
        """A new supervisor; what it knew is on the disk, or gone."""
        if self.is_gone or self.left:
            return
        self._life += 1
        random = self.world.random
        self.plan = Plan(
            hosts=self.hosts, host=self.name, epoch=self.epoch,
            instance=f"{random.getrandbits(32):08x}", lease_seconds=self.lease,
            heartbeat_seconds=2.0, patience_seconds=60.0,
        )  # fmt: skip
        known = (*self.disk.taken, *self.disk.queue)
        self.state = State(
            generation=self.disk.generation, journal=self.disk.journal, handled=known
        )
        self._publishing = []
        self.is_stalled = False
        self._loop(self._life)

    def crash(self) -> None:
        self.plan = None
        self._life += 1
        self.world.at(self.world.random.uniform(0, 15), self.start)

    def lose(self) -> None:
        self.is_gone, self.plan = True, None
        self._life += 1

    @property
    def is_running(self) -> bool:
        return self.plan is not None and not self.left

    def _loop(self, life: int) -> None:
        if life != self._life or self.left:
            return
        if self.is_frozen or self.is_stalled:
            self.world.at(1.0, lambda: self._loop(life))
            return
        try:
            self._turn()
        except Crash:
            self.crash()
            return
        self.world.at(self._pause(), lambda: self._loop(life))

    def _pause(self) -> float:
        assert self.plan is not None
        due = mirror_steps.next_at(self.plan, self.state)
        pause = 1.0 if due is None else due - self._clock()
        return min(1.0, max(0.2, pause))

    def _clock(self) -> float:
        """Monotonic, and different on each machine."""
        return self.world.now + self._skew

    # One turn of the mirror, then of the supervisor

    def _turn(self) -> None:
        self._feed(Told(self._said()))
        if self.is_lead:
            self._feed(JournalRead(self.disk.journal))
        self._run(self._feed(Tick()))
        if self.world.happens("crash", 0.002):
            raise Crash
        if self.state.over:
            self._leave(f"over: {self.state.over}")
        elif self.is_lead and not self.state.is_joined and not self.disk.has_joined:
            pass  # a new lead first learns what an earlier one has done
        elif self.disk.journal.is_final:
            self._leave("final")
        else:
            self.disk.has_joined = self.disk.has_joined or self.state.is_joined
            self._supervise()

    def _leave(self, why: str) -> None:
        if not self.disk.journal.is_final or not self.is_lead or self.state.over:
            self._run(self._feed(Close()))
            self.left = why
            return
        self._feed(JournalRead(self.disk.journal))
        self._run(self._feed(Close()))
        if self.state.is_swept or self.state.over:
            self.left = why

    def _feed(self, event: Event) -> list[Command]:
        """The state counts once what it stands for is on the disk."""
        assert self.plan is not None
        state, commands = mirror_steps.step(self.plan, self.state, event, self._clock())
        for command in commands:
            if self._write(command) and self.world.happens("crash between writes", 0.002):
                raise Crash
        before, self.state = self.state, state
        self._check_lost(before)
        return [command for command in commands if isinstance(command, List | Get | Put | Delete)]

    def _run(self, commands: list[Command]) -> None:
        waiting = list(commands)
        while waiting:
            if self.world.happens("stalled between requests", 0.02):
                self._stall(waiting)
                return
            command = waiting.pop(0)
            try:
                event = self._request(command)
            except StoreAway:
                self._feed(Failed())
                return
            waiting += self._feed(event)
            if self.world.happens("event again, later", 0.02):
                self._repeat(event)

    def _repeat(self, event: Event) -> None:
        def again() -> None:
            if self.is_stalled:  # it handles one thing after the other
                self._repeat(event)
            else:
                self._run(self._feed(event))

        self._later((0.1, 3.0, 30.0), again)

    def _stall(self, waiting: list[Command]) -> None:
        self.is_stalled = True

        def resume() -> None:
            self.is_stalled = False
            self._run(waiting)

        self._later((0.1, 3.0, 30.0), resume)

    def _later(self, choice: tuple[float, ...], action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if life == self._life and self.is_running:
                try:
                    action()
                except Crash:
                    self.crash()

        self.world.at(self.world.random.choice(choice), act)

    # The store

    def _request(self, command: Command) -> Event:
        if self.store.is_away or self.is_cut_off:
            raise StoreAway
        if self.world.happens("request lost", 0.01):
            raise StoreAway
        if not self.is_lead and getattr(command, "name", "").endswith("/lead.json"):
            self.looks = (self.world.now, self.store.total_away())
        match command:
            case List():
                found = self.store.listing()
                self.looks = (found.at, found.away_seconds)
                return Listed(found.names)
            case Get():
                return self._got(command)
            case Put():
                return self._put(command)
            case Delete():
                for name in command.names:
                    self.store.delete(name)
                return Deleted(command.names)
        raise AssertionError(command)

    def _got(self, command: Get) -> Event:
        found = self.store.get(command.name)
        if found is None:
            return Got(command.name, None, None)
        if found[0] == command.unless:
            return Unchanged(command.name)
        return Got(command.name, *found)

    def _put(self, command: Put) -> Event:
        is_journal = command.name == JOURNAL
        if not is_journal and self.world.happens("put applied late", 0.01):
            self.world.at(
                self.world.random.choice((1.0, 20.0)),
                lambda: self._apply_late(command),
            )
            raise StoreAway
        try:
            replaces = command.replaces if is_journal or self.store.has_conditions else None
            etag = self.store.put(command.name, command.content, replaces)
        except PutRefused:
            return Conflict(command.name)
        assert self.plan is not None
        if command.name == self.plan.own_name:
            self.writes.append((self.world.now, self.store.total_away()))
        if self.world.happens("answer lost", 0.01):
            raise StoreAway
        content = command.content
        assert not isinstance(content, StoredRequest)
        number = content.version if isinstance(content, JournalCopy) else content.beat
        return Stored(command.name, etag, number)

    def _apply_late(self, command: Put) -> None:
        if not self.store.is_away:
            with suppress(PutRefused):
                replaces = command.replaces if self.store.has_conditions else None
                self.store.put(command.name, command.content, replaces)

    # The disk

    def _write(self, command: Command) -> bool:
        disk = self.disk
        match command:
            case WriteJournal():
                if len(disk.lines) > command.journal.version:
                    raise Violation(f"{self.name} went back to an older journal")
                disk.lines = command.journal.text.split("\n")
            case WriteRecord():
                disk.records[command.host] = command.record["phase"]
            case WriteOrder():
                if not self.is_lead or disk.order is None:
                    disk.order = command.order
            case WriteMeeting():
                disk.meeting = command.meeting
            case Deliver():
                self._deliver(command.request)
            case StopJob():
                self._append("Stopping", unless=("Stopping", *FINAL))
            case KeepGeneration():
                disk.generation = command.generation
            case _:
                return False
        return True

    def _deliver(self, request: StoredRequest) -> None:
        if request.host != self.name:
            raise Violation(f"{self.name} got what is for {request.host}")
        if request.id in self.disk.taken or request.id in self.disk.queue:
            return
        self.disk.queue.append(request.id)

    def _append(self, line: str, *, unless: tuple[str, ...]) -> None:
        if self.disk.lines[-1] in FINAL or any(each in self.disk.lines for each in unless):
            return
        self.disk.lines.append(line)

    # The supervisor

    def _said(self) -> Said:
        disk = self.disk
        return Said(
            attempt=self.epoch,
            record={"phase": disk.phase},
            has_ended=disk.phase in ("ended", "failed"),
            order=disk.order,
            meeting=disk.meeting,
        )

    def _supervise(self) -> None:
        disk = self.disk
        for identifier in disk.queue:
            if identifier in disk.taken:
                raise Violation(f"{self.name} did {identifier} twice")
            disk.taken.append(identifier)
        disk.queue = []
        must_end = disk.order is not None or "Stopping" in disk.lines
        if disk.phase == "preparing":
            disk.ends_at = disk.ends_at or self.world.now + self.prepares_seconds
            if must_end:
                disk.phase = "ended"
            elif self.world.now >= disk.ends_at:
                disk.phase, disk.ends_at = "ready", None
        elif disk.phase == "ready" and (must_end or f"Training {self.epoch}" in disk.lines):
            disk.phase, disk.ends_at = "running", self.world.now + self.trains_seconds
        elif disk.phase == "running" and (must_end or self.world.now >= (disk.ends_at or 0)):
            disk.phase = "failed" if self.fails and not must_end else "ended"
            if disk.phase == "failed" and disk.order is None:
                disk.order = {"why": "host_failed", "host": self.name}
        if self.is_lead:
            self._lead()

    def _lead(self) -> None:
        disk = self.disk
        phases = {host: disk.records.get(host, "") for host in self.hosts}
        phases[self.name] = disk.phase
        if all(phase in ("ready", "running") for phase in phases.values()):
            disk.meeting = disk.meeting or {"port": self.world.random.randrange(1000)}
            self._append(f"Training {self.epoch}", unless=(f"Training {self.epoch}", "Stopping"))
        assert self.plan is not None
        over = ("ended", "failed")
        lost = [
            host
            for host in self.plan.peers
            if phases[host] not in over and is_lost(self.plan, self.state.peer(host))
        ]
        failed = [host for host, phase in phases.items() if phase == "failed"]
        if (lost or failed) and disk.order is None:
            why = "host_lost" if lost else "host_failed"
            disk.order = {"why": why, "host": (lost or failed)[0]}
        if all(phase in over or host in lost for host, phase in phases.items()):
            self._conclude()

    def _conclude(self) -> None:
        """Publish as every lead does: etag, then the fence, then a put with a condition; anything
        may happen in between."""
        if self.store.is_away or self.is_cut_off:
            self._publishing = []
            return
        if not self._publishing:
            found = self.store.get(MODEL)
            self._publishing = [found[0] if found else ""]
        elif len(self._publishing) == 1:
            fence = self.store.get(EPOCH)
            self._publishing.append(fence is None or fence[1] <= self.epoch)
        elif self._publishing[1]:
            etag, self._publishing = self._publishing[0], []
            try:
                self.store.put(MODEL, self.epoch, etag)
            except PutRefused:
                return
            self._append(self._end(), unless=())

    def _end(self) -> str:
        if "Stopping" in self.disk.lines:
            return "Stopped"
        return "Failed" if self.disk.order else "Completed"

    def _check_lost(self, before: State) -> None:
        """Whoever is taken for lost now has written nothing for a lease, not counting the time in
        which the store was away."""
        assert self.plan is not None
        for host in self.plan.peers:
            if self._takes_for_lost(before, host) or not self._takes_for_lost(self.state, host):
                continue
            looked_at, away = self.looks
            writes = self.peers[host].writes
            wrote_at, away_then = [each for each in writes if each[0] <= looked_at][-1]
            silent = (looked_at - wrote_at) - (away - away_then)
            if silent < self.plan.lease_seconds - OLD_SECONDS - 1:
                raise Violation(f"{host} was taken for lost after {silent:.1f} s")

    def _takes_for_lost(self, state: State, host: str) -> bool:
        assert self.plan is not None
        if not self.is_lead:
            return "has not been heard" in state.over
        peer = state.peer(host)
        return is_lost(self.plan, peer) and not (peer.heard and peer.heard.over)


class Placement:
    """Places groups: the first one, and another when nobody of the last one is left, or when it
    wrongly believes so."""

    def __init__(
        self, world: World, store: Store, num_hosts: int, lease: float, *, is_endless: bool
    ) -> None:
        self.world, self.store, self.lease = world, store, lease
        self.is_endless = is_endless
        self.hosts = tuple(f"algo-{number}" for number in range(1, num_hosts + 1))
        self.groups: list[list[Host]] = []

    @property
    def all_hosts(self) -> list[Host]:
        return [host for group in self.groups for host in group]

    def place(self) -> None:
        """Raise the fence, then add a line to the journal on a condition: from then on no lead of
        an earlier epoch can change it. An end that was stored before stays."""
        if self.store.is_away:
            return
        found = self.store.get(EPOCH)
        epoch = (found[1] if found else 0) + 1
        self.store.put(EPOCH, epoch, found[0] if found else "")
        stored = self.store.get(JOURNAL)
        lines = stored[1].text.split("\n") if stored else []
        if lines and lines[-1] in FINAL:
            return
        lines.append(f"Starting {epoch}")
        self.store.put(JOURNAL, journal_of(lines), stored[0] if stored else "")
        group = [
            Host(
                self.world, self.store, name, self.hosts, epoch, lines, self.lease,
                is_endless=self.is_endless,
            )
            for name in self.hosts
        ]  # fmt: skip
        for host in group:
            host.peers = {each.name: each for each in group}
            self.world.at(self.world.random.uniform(0, 3), host.start)
        self.groups.append(group)

    @property
    def end(self) -> JournalCopy | None:
        found = self.store.get(JOURNAL)
        return found[1] if found and found[1].is_final else None

    def reconcile(self) -> None:
        if self.end is None and (not self.groups or self._is_over() or self._is_mistaken()):
            self.place()
        self.world.at(5.0, self.reconcile)

    def _is_over(self) -> bool:
        return all(host.left or host.is_gone for host in self.groups[-1])

    def _is_mistaken(self) -> bool:
        lead = self.groups[-1][0]
        share = 0.15 if lead.is_stalled or lead.is_frozen or lead.is_cut_off else 0.01
        return len(self.groups) < 3 and self.world.happens("placed again by mistake", share)


class Asker:
    """Somebody with access to the store who asks for things, as often as they like."""

    def __init__(self, world: World, store: Store, hosts: tuple[str, ...]) -> None:
        self.world, self.store, self.hosts = world, store, hosts
        self.stops: list[str] = []
        self._serial = itertools.count(1)

    def ask(self, what: str) -> None:
        if self.store.is_away:
            self.world.at(5.0, lambda: self.ask(what))
            return
        identifier = f"{what}-{next(self._serial)}"
        host = "" if what == STOP else self.world.random.choice(self.hosts)
        if what == STOP:
            self.stops.append(identifier)
        request = StoredRequest(identifier, what, host)
        self.store.put(request_name(identifier), request)
        if self.world.happens("request again, later", 0.3):
            self.world.at(
                self.world.random.choice((0.5, 5.0, 40.0)), lambda: self._again(identifier, request)
            )

    def _again(self, identifier: str, request: StoredRequest) -> None:
        if not self.store.is_away:
            self.store.put(request_name(identifier), request)
