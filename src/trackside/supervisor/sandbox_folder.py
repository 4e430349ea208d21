"""A sandbox's folder: the records that its starter and its init write there.

A damaged record is ignored; if it would say that init lives, the lock does too.
"""

import fcntl
import os
from pathlib import Path

from trackside.files import damaged_files
from trackside.quick_dataclass import dataclass
from trackside.supervisor.sandbox import Exited
from trackside.system import process_table
from trackside.system.processes import Identity

INTENT, PROCESS, EXIT, LOCK = "intent.json", "process.json", "exit.json", "lock"


@dataclass(frozen=True, slots=True)
class Intent:
    nonce: str
    mark: str
    """The variable that all processes of the sandbox have in their environment."""
    boot_id: str
    declared_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Started:
    mark: str
    boot_id: str
    init: _Process
    command: _Process
    isolation: str
    refusals: str

    @property
    def init_identity(self) -> Identity:
        return Identity(self.init.pid, self.init.started, self.boot_id)

    @property
    def command_identity(self) -> Identity:
        return Identity(self.command.pid, self.command.started, self.boot_id)


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int
    out_of_memory: bool
    seconds: float | None = None


def read_intent(folder: Path) -> Intent | None:
    return damaged_files.read(Intent, folder / INTENT)


def read_start(folder: Path) -> Started | None:
    return damaged_files.read(Started, folder / PROCESS)


def read_end(folder: Path) -> Exited | None:
    ended = damaged_files.read(_Ended, folder / EXIT)
    return None if ended is None else Exited(ended.code, ended.out_of_memory, ended.seconds)


def has_started(folder: Path) -> bool:
    return (folder / PROCESS).exists()


def is_held(folder: Path) -> bool:
    """Whether init lives, or is about to be started: both hold the lock."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def live_supervisor(folder: Path) -> int:
    """The pid of the supervisor that watches the sandbox; 0 when it is gone."""
    try:
        pid, since = map(int, (folder / "supervisor").read_text().split())
    except (FileNotFoundError, ValueError):
        return 0
    return pid if process_table.started(pid) == since else 0
