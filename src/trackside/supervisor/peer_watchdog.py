"""The lead's watchdog for the other hosts' supervisors: restarts one that died.

A running script has its own init that does this (`watchdog.py`); the lead acts if nothing of the
host runs. A host is lost when its supervisor keeps dying without a script. `decide` is pure;
`PeerWatchdog` observes and acts.
"""

import logging
import subprocess
import sys
import time
from dataclasses import field
from enum import Enum, auto
from math import inf

from trackside.coordination.coordination import Coordination
from trackside.quick_dataclass import dataclass
from trackside.records.hosts import Phase
from trackside.records.layout import HostFolder
from trackside.records.placed import Placed
from trackside.settings import VISIBLE_GPUS
from trackside.supervisor.context import Context
from trackside.system import processes

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (0.0, 2.0, 5.0)
"""Pauses before each restart. When they are used up the host is lost."""
WINDOW_SECONDS = 600.0
"""A supervisor that lived this long gets its full number of restarts again."""
KEEPER_SECONDS = 120.0
"""Time in which the init of a running script restarts its supervisor."""


class Action(Enum):
    LEAVE = auto()
    START = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one host at one moment."""

    supervisor_lives: bool = False
    can_start: bool = True
    """Whether the lead can start it again: not on another machine."""
    script_lives: bool = False
    gone_seconds: float = 0.0
    """Seconds since its supervisor was last seen."""
    starts: int = 0
    """Restarts by this lead, within the window."""
    since_start_seconds: float = inf


def decide(seen: Seen) -> Action:
    if seen.supervisor_lives:
        return Action.LEAVE
    if not seen.can_start:
        return Action.LOST
    if seen.script_lives and seen.gone_seconds < KEEPER_SECONDS:
        return Action.LEAVE
    if seen.starts < len(PAUSES_SECONDS):
        due = seen.since_start_seconds >= PAUSES_SECONDS[seen.starts]
        return Action.START if due else Action.LEAVE
    if seen.script_lives or seen.since_start_seconds < PAUSES_SECONDS[-1]:
        return Action.LEAVE
    return Action.LOST


@dataclass(slots=True)
class _Memory:
    """The lead's state for one host. Times are monotonic."""

    started_at: list[float] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None


class PeerWatchdog:
    def __init__(self, context: Context, coordination: Coordination) -> None:
        self._context = context
        self._coordination = coordination
        self._memories: dict[str, _Memory] = {}

    def check(self) -> list[str]:
        """Restart supervisors that died; returns the lost hosts."""
        lost = []
        for host, record in self._coordination.records().items():
            if host == self._coordination.host or record.phase is Phase.ENDED:
                continue
            match decide(self._see(host)):
                case Action.START:
                    self._start(host)
                case Action.LOST:
                    lost.append(host)
        return lost

    def _see(self, host: str) -> Seen:
        memory = self._memories.setdefault(host, _Memory())
        if memory.process is not None:
            memory.process.poll()  # so that no zombie is taken for it
        found = self._coordination.liveness(host)
        if found.supervisor or _runs(memory.process):
            return Seen(supervisor_lives=True)
        if not self._coordination.is_one_machine:
            return Seen(can_start=False)
        now = time.monotonic()
        recent = [moment for moment in memory.started_at if now - moment < WINDOW_SECONDS]
        return Seen(
            script_lives=bool(found.script),
            gone_seconds=found.silent_seconds,
            starts=len(recent),
            since_start_seconds=now - recent[-1] if recent else inf,
        )

    def _folders(self, host: str) -> list[HostFolder]:
        """Of this and all earlier attempts: a supervisor continues from one into the next."""
        folder = self._context.folder
        return [folder.host(host, number) for number in range(self._coordination.attempt, 0, -1)]

    def _start(self, host: str) -> None:
        place, *_ = self._folders(host)
        logger.warning("the supervisor of %s died; starting it again", host)
        memory = self._memories[host]
        memory.started_at.append(time.monotonic())
        place.root.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value
            for name, value in self._context.environ.items()
            if name != processes.NONCE_VARIABLE
        }
        placed = Placed.read(self._context.folder)
        known = placed.hosts.get(host) if placed is not None else None
        if known is not None and known.gpus is not None:
            environment[VISIBLE_GPUS] = ",".join(known.gpus)
        root, nonce = str(self._context.folder.root), known.nonce if known else ""
        try:
            with place.supervisor_log.open("ab") as log:
                memory.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "trackside.supervisor", root, host, nonce],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            logger.warning("the supervisor of %s did not start: %s", host, error)


def _runs(process: subprocess.Popen[bytes] | None) -> bool:
    """Whether one that was started here is alive: it may not have written its record yet."""
    return process is not None and process.returncode is None
