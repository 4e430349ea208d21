"""The process that called `trackside.init`: a running script that Trackside did not start.

Its run is a job like any other, with that process as its sandbox. The process records its identity,
and how its run ended, in the host's folder, for the supervisor and for readers of the job.
`jobs/submit` starts the job, `supervisor/attached_sandbox` watches it.
"""

import os
import signal
import time

from trackside.files import damaged_files, durable
from trackside.files.permissions import make_folder
from trackside.quick_dataclass import dataclass
from trackside.records.layout import HostFolder
from trackside.system import processes
from trackside.system.processes import Identity

STALE_SECONDS = 600.0
"""After so long without a new record, the supervisor on another machine counts as gone. It writes
its record every minute."""


@dataclass(frozen=True, slots=True)
class AttachedProcess:
    process: Identity
    machine: str
    """The name of the machine: a home on a shared disk is read from others."""
    stop_signal: int = signal.SIGINT
    """The signal that requests the process to stop."""


@dataclass(frozen=True, slots=True)
class AttachedProcessEnd:
    """How the run ended. The process itself may continue, as a notebook does."""

    code: int
    """As an exit code; a signal is its negative number."""
    seconds: float | None = None
    """How long the run took."""
    let_go: bool = False
    """Written by the supervisor: the process did not stop when requested, and continues without
    being tracked."""


def this_process() -> AttachedProcess:
    """A process that ignores SIGINT, as one in a shell script's background does, gets SIGTERM."""
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    number = signal.SIGTERM if ignores else signal.SIGINT
    return AttachedProcess(processes.myself(), os.uname().nodename, int(number))


def write_caller(folder: HostFolder, caller: AttachedProcess) -> None:
    make_folder(folder.sandbox)
    durable.write_record(folder.caller, caller)


def read_caller(folder: HostFolder) -> AttachedProcess | None:
    """None for a job whose script Trackside started."""
    return damaged_files.read(AttachedProcess, folder.caller)


def write_end(folder: HostFolder, end: AttachedProcessEnd) -> None:
    durable.write_record(folder.caller_end, end)


def read_end(folder: HostFolder) -> AttachedProcessEnd | None:
    return damaged_files.read(AttachedProcessEnd, folder.caller_end)


def read_status(folder: HostFolder) -> int | None:
    """The exit status of the process, which is gone; None if it was not saved."""
    try:
        kept = folder.caller_status.read_bytes()
    except FileNotFoundError:
        return None
    return kept[0] if kept else None


def is_elsewhere(folder: HostFolder) -> bool:
    """Whether the run is on another machine: its pids mean nothing here."""
    caller = read_caller(folder)
    if caller is None or caller.machine == os.uname().nodename:
        return False
    return _seconds_since_record(folder) < STALE_SECONDS


def _seconds_since_record(folder: HostFolder) -> float:
    try:
        last = os.stat(folder.record).st_mtime
    except FileNotFoundError:
        last = os.stat(folder.caller).st_mtime
    return time.time() - last
