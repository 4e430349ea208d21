"""A machine in memory for `simulation`: its clocks, what is on its disk, its processes, its faults.

Everything that happens follows from one seed. A process is killed, or another one goes on, wherever
the real one writes: `pause` is called before and after each write. What is decided is decided by
the product's own functions; here is only what they are told.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from trackside.coordination.coordination import EndOrder, Meeting
from trackside.records.hosts import HostRecord
from trackside.records.journal import History, Journal, fold_lines
from trackside.records.placed import PlacedHost
from trackside.system.boot_clock import Moment

DAY_SECONDS = 86_400.0
_JUMPS_SECONDS = (-DAY_SECONDS, -3600.0, -1200.0, 3600.0, DAY_SECONDS)


class Killed(BaseException):
    """The process at work was killed at this line."""


class Violation(Exception):
    """An invariant does not hold. Says which, and what was seen."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise Violation(what)


class Process:
    """Goes on by `tick`, a little at a time; what it remembers dies with it."""

    def __init__(self, machine: "Machine") -> None:
        self.machine = machine
        self.is_alive = True
        self.is_busy = False
        self.resumes_at = 0.0

    def tick(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        self.is_alive = False


@dataclass(slots=True)
class Script:
    """What a sandbox runs, with the init that outlives the supervisor. Times are true ones."""

    host: str
    attempt: int
    ends_at: float
    exit_code: int
    exited: int | None = None
    lost: str = ""
    asked_at: float | None = None
    supervisor: Process | None = None
    num_revivals: int = 0
    revived_at: float = -1e9

    @property
    def is_alive(self) -> bool:
        return self.exited is None and not self.lost

    def end(self, code: int) -> None:
        if self.is_alive:
            self.exited = code

    def lose(self, why: str) -> None:
        if self.is_alive:
            self.lost = why


class SimulatedJournal(Journal):
    """The product's, over bytes in memory; its writer may die before, in or after a line."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(Path("simulated"))
        self.machine = machine
        self.data = b""
        self._folded: tuple[bytes, History] | None = None

    def _begin(self, *opening: dict[str, Any]) -> History:
        for event in opening:
            self._append(event)
        return self.read()

    def _now(self) -> float:
        return self.machine.wall

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self.machine.pause()
        self.data = self.data[: self.data.rfind(b"\n") + 1]  # as `durable.drop_torn_line`
        yield -1

    def _put(self, descriptor: int, line: bytes, spends_ballast: bool) -> None:
        machine = self.machine
        if machine.may_kill() and machine.random.random() < 0.3:
            self.data += line[: machine.random.randrange(len(line))]
            machine.count("torn line")
            raise Killed
        self.data += line
        history = self._fold()
        assert history is not None
        machine.on_line(history, line)
        machine.pause()

    def _fold(self) -> History | None:
        whole = self.data[: self.data.rfind(b"\n") + 1]
        if not whole:
            return None
        if self._folded is None or self._folded[0] != whole:
            self._folded = (whole, fold_lines(whole.splitlines()))
        return self._folded[1]


@dataclass(slots=True)
class Disk:
    """What outlives processes, but for the journal."""

    records: dict[tuple[str, int], HostRecord] = field(default_factory=dict)
    placed: dict[str, PlacedHost] = field(default_factory=dict)
    handles: set[str] = field(default_factory=set)
    """The hosts whose handle is written."""
    meetings: dict[int, Meeting] = field(default_factory=dict)
    orders: dict[int, EndOrder] = field(default_factory=dict)
    scripts: dict[tuple[str, int], Script] = field(default_factory=dict)
    has_ending_note: bool = False
    published: list[int] = field(default_factory=list)
    """The attempt of each model that was put under its final name."""


class Machine:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.true_seconds = 1000.0
        """What no clock of the machine shows, and nothing changes."""
        self._booted_at = 0.0
        self._num_boots = 1
        self._wall_offset = 1.8e9
        self.is_faulty = True
        self.kills_per_pause = random.choice((0.0, 0.005, 0.02, 0.06, 0.2))
        self.processes: list[Process] = []
        self.faults: dict[str, int] = {}
        self.on_line: Callable[[History, bytes], None] = lambda history, line: None
        """Called with what readers make of the journal, and the line that was written last."""
        self.on_kill: Callable[[Process], None] = lambda process: None
        self.disk = Disk()
        self.journal = SimulatedJournal(self)
        self._stack: list[Process] = []

    @property
    def wall(self) -> float:
        return self.true_seconds + self._wall_offset

    @property
    def now(self) -> Moment:
        return Moment(f"boot {self._num_boots}", self.true_seconds - self._booted_at)

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def start(self, process: Process) -> None:
        self.processes.append(process)

    def may_kill(self) -> bool:
        return bool(self._stack) and self.is_faulty and self.random.random() < self.kills_per_pause

    def pause(self) -> None:
        """Where a process can be killed, or be overtaken by others."""
        if self.may_kill():
            self.count("kill at a write")
            raise Killed
        while self._stack and len(self._stack) < 4 and self.random.random() < 0.35:
            self.run_one()

    def run_one(self) -> None:
        ready = [
            each
            for each in self.processes
            if each.is_alive and not each.is_busy and each.resumes_at <= self.true_seconds
        ]
        if ready:
            self._run(self.random.choice(ready))

    def run_all(self) -> None:
        for process in self.random.sample(self.processes, len(self.processes)):
            if process.is_alive and not process.is_busy and process.resumes_at <= self.true_seconds:
                self._run(process)
        self.processes = [each for each in self.processes if each.is_alive]

    def _run(self, process: Process) -> None:
        process.is_busy = True
        self._stack.append(process)
        try:
            process.tick()
        except Killed:
            self.kill(process)
        finally:
            self._stack.pop()
            process.is_busy = False

    def kill(self, process: Process) -> None:
        process.is_alive = False
        self.on_kill(process)

    def idle(self) -> list[Process]:
        """Who can be killed between two steps."""
        return [each for each in self.processes if each.is_alive and not each.is_busy]

    # Faults between steps

    def jump_wall_clock(self) -> None:
        self.count("clock jump")
        self._wall_offset += self.random.choice(_JUMPS_SECONDS)

    def reboot(self) -> None:
        self.count("reboot")
        self._num_boots += 1
        self._booted_at = self.true_seconds
        for process in self.idle():
            self.kill(process)
        for script in self.disk.scripts.values():
            script.lose("the machine was restarted")

    def freeze_one(self) -> None:
        if found := self.idle():
            self.count("delay")
            seconds = self.random.choice((1.0, 10.0, 100.0))
            self.random.choice(found).resumes_at = self.true_seconds + seconds
