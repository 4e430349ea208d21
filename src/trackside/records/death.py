"""Why an attempt ended that neither completed nor was stopped: one of twelve causes, decided from
evidence by one pure function, `cause_of`; and which causes are tried again. docs/deaths.md has the
table of how each comes about where.
"""

import signal
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from trackside.quick_dataclass import dataclass


class Cause(StrEnum):
    OUT_OF_MEMORY = "out_of_memory"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    NODE_LOST = "node_lost"
    ENGINE_GONE = "engine_gone"
    IMAGE = "image"
    CODE = "code"
    SIGNAL = "signal"
    DISK = "disk"
    STORE = "store"
    REQUEST = "request"
    DEFECT = "defect"

    @property
    def is_of_infrastructure(self) -> bool:
        """Whether neither the script nor its request has a part in it: such attempts do not use up
        the job's own retries."""
        return self in _OF_INFRASTRUCTURE


_OF_INFRASTRUCTURE = (Cause.PREEMPTED, Cause.NODE_LOST, Cause.ENGINE_GONE)

WORDS: dict[Cause, str] = {
    Cause.OUT_OF_MEMORY: "out of memory",
    Cause.PREEMPTED: "preempted",
    Cause.TIME_LIMIT: "time limit",
    Cause.NODE_LOST: "machine lost",
    Cause.ENGINE_GONE: "engine gone",
    Cause.IMAGE: "image",
    Cause.CODE: "the script itself",
    Cause.SIGNAL: "signal from outside",
    Cause.DISK: "disk",
    Cause.STORE: "connection to the store",
    Cause.REQUEST: "what the job asks for",
    Cause.DEFECT: "a defect of Trackside",
}
"""For people."""


class MemoryKiller(StrEnum):
    """Who killed for lack of memory."""

    LIMIT = "limit"
    """The kernel, at the limit that the job asked for: of its control group or container."""
    KERNEL = "kernel"
    """The kernel, for lack of memory on the machine or in what surrounds the job there."""
    ENGINE = "engine"
    """The engine, by its own limit."""


class Gone(StrEnum):
    """What is gone without an exit code."""

    MACHINE = "machine"
    """It was restarted, is down or cut off."""
    TAKEN = "taken"
    """An engine has given the machine to others."""
    ENGINE = "engine"
    """What runs the script, or knows of it: a container engine, a controller."""
    PROCESSES = "processes"
    """All processes were killed, or the container was removed, while the machine lives."""
    MEMORY = "memory"
    """The engine ended what was to start it, for lack of memory on the machine."""
    RECORD = "record"
    """How it ended was recorded and cannot be read, or the supervisor keeps dying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of the end of an attempt; each member is one fact, of one source."""

    is_time_over: bool = False
    """It was ordered to end because its time was over, or the engine says so."""
    memory: MemoryKiller | None = None
    error: str = ""
    """The `code` of an error of ours that ended it: before its script, or while storing."""
    gone: Gone | None = None
    is_disk_full: bool = False
    """A disk that the script or we write to refuses data, or the script's error says so."""
    exit_code: int | None = None
    """The script's, a signal as its negative number; other than by our order."""


_OF_GONE = {
    Gone.MACHINE: Cause.NODE_LOST,
    Gone.TAKEN: Cause.PREEMPTED,
    Gone.ENGINE: Cause.ENGINE_GONE,
    Gone.PROCESSES: Cause.SIGNAL,
    Gone.MEMORY: Cause.OUT_OF_MEMORY,
    Gone.RECORD: Cause.DEFECT,
}
_OF_ERROR = {
    "image": Cause.IMAGE,
    "container_refused": Cause.IMAGE,
    "engine_gone": Cause.ENGINE_GONE,
    "disk_full": Cause.DISK,
    "storage": Cause.STORE,
    "store_unreachable": Cause.STORE,
    "damaged_transfer": Cause.STORE,
    "access_refused": Cause.REQUEST,
    "archive": Cause.REQUEST,
    "input": Cause.REQUEST,
    "invalid_key": Cause.REQUEST,
    "invalid_spec": Cause.REQUEST,
    "object_changed": Cause.REQUEST,
    "object_not_found": Cause.REQUEST,
    "quota_exceeded": Cause.REQUEST,
    "unknown_scheme": Cause.REQUEST,
}
"""Others, such as `sandbox`, are defects of ours, or of how the machine is set up."""
_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that, when we did not send them, mean that the machine or a person ended the script.
Others, such as SIGSEGV, are the script's own."""


def cause_of(seen: Evidence) -> Cause:
    """The one cause. What is known for certain comes before what it has led to: a script that the
    kernel killed has an exit code as well. Pure."""
    if seen.is_time_over:
        return Cause.TIME_LIMIT
    if seen.memory is not None:
        return Cause.OUT_OF_MEMORY
    if seen.gone is not None:
        return _OF_GONE[seen.gone]
    if seen.is_disk_full:
        return Cause.DISK
    if seen.error:
        return _OF_ERROR.get(seen.error, Cause.DEFECT)
    if not seen.exit_code:
        return Cause.DEFECT
    return Cause.SIGNAL if outside_signal(seen.exit_code) else Cause.CODE


def outside_signal(exit_code: int) -> signal.Signals | None:
    """The signal by which somebody else ended a script with this exit code; as a shell or a
    launcher reports it, too."""
    number = -exit_code if exit_code < 0 else exit_code - 128 if exit_code > 128 else 0
    return signal.Signals(number) if number in _OUTSIDE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The end of one attempt."""

    cause: Cause
    host: str = ""
    """On which it was first seen; empty if it concerns all."""
    memory: str = ""
    """Who killed for lack of memory: a `MemoryKiller`."""
    attempt: int = 1

    @classmethod
    def of_line(cls, line: Mapping[str, Any], attempt: int) -> "Death | None":
        """Of a line of the journal, or a server's response; None without a cause that is known
        here: a later version may have others."""
        try:
            cause = Cause(line.get("cause", ""))
        except ValueError:
            return None
        host, memory = str(line.get("host") or ""), str(line.get("memory") or "")
        return cls(cause=cause, host=host, memory=memory, attempt=attempt)

    @property
    def line(self) -> dict[str, str]:
        """Its members in a line of the journal."""
        said = {"cause": str(self.cause), "host": self.host, "memory": self.memory}
        return {name: value for name, value in said.items() if value}


MOST_OF_INFRASTRUCTURE = 100
"""Attempts of one job that may end by what is not its own doing. Weeks at low priority on a busy
cluster; a script that takes its machine down each time ends some time."""


def may_try_again(cause: Cause, earlier: Iterable[Death], max_attempts: int) -> bool:
    """Whether an attempt that ended by this cause is followed by another. `earlier` attempts ended
    before it; `max_attempts` is 1 for a job without a RetryStrategy, which goes on only when its
    machines are taken away with notice. Pure."""
    deaths = [each.cause.is_of_infrastructure for each in earlier]
    if cause.is_of_infrastructure:
        is_wanted = max_attempts > 1 or cause is Cause.PREEMPTED
        return is_wanted and sum(deaths) < MOST_OF_INFRASTRUCTURE
    return len(deaths) - sum(deaths) + 1 < max_attempts
