"""Identifies processes: a pid is reused, a pid with its start time is not.

Also finds and ends every process with a sandbox's nonce, however far it has moved.
"""

import os
import select
import time
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.files import json_record
from trackside.quick_dataclass import dataclass
from trackside.system import job_keepers, process_table

if not process_table.PRESENT:
    import psutil

NONCE_VARIABLE = "TRACKSIDE_NONCE"
"""Set in the environment of everything that runs in a process sandbox."""

_SIGKILL = 9
_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, unique for all time."""

    pid: int
    started: int
    """Linux: clock ticks since boot. Elsewhere: microseconds since the epoch."""
    boot_id: str
    """Tells equal pids and ticks of two boots apart; empty where the kernel has none."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Identity":
        """From what `asdict` made of one; other keys are ignored. `DamagedRecord` when it is
        invalid.
        """
        return json_record.record(cls, record)


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None when there is none, or only its zombie."""
    since = process_table.started(pid)
    return None if since is None else Identity(pid, since, process_table.boot_id())


def myself() -> Identity:
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


class ProcessEnd:
    """Waits for the end of a process that need not be a child of ours."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._descriptor = _pidfd(identity)

    def wait(self, seconds: float, wake: int | None = None) -> bool:
        """Whether it has ended, which is seen at once where the kernel has pidfds.

        Returns early when the descriptor `wake` can be read.
        """
        others = [] if wake is None else [wake]
        if self._descriptor is None:
            select.select(others, [], [], seconds if is_alive(self._identity) else 0)
            return not is_alive(self._identity)
        ready, _, _ = select.select([self._descriptor, *others], [], [], seconds)
        return self._descriptor in ready

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _pidfd(identity: Identity) -> int | None:
    """None for a process that has ended, and without pidfd support."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except (OSError, AttributeError):  # macOS, before Linux 5.3, or a Python built for one
        return None
    if is_alive(identity):  # so the descriptor is of exactly this process
        return descriptor
    os.close(descriptor)
    return None


def send_signal(identity: Identity, number: int, *, group: bool = False) -> bool:
    """Signal exactly this process, or the group it leads; a process that reuses the pid is not
    touched.

    False when it is gone or belongs to another user, neither of which is an error.
    """
    if identity.boot_id != process_table.boot_id():
        return False
    if process_table.PRESENT:
        return process_table.signal_exactly(identity.pid, identity.started, number, group=group)
    if not is_alive(identity):
        return False
    try:
        (os.killpg if group else os.kill)(identity.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def carriers(nonce: str) -> list[Identity]:
    """Live processes of the sandbox with this nonce, except for the calling one.

    They are known by TRACKSIDE_NONCE in the environment they were started with and, on Linux, by
    the mount that marks the sandbox's namespace, which stays when a process clears its environment.
    Processes of other users are not inspected.
    """
    found = _carriers_in_proc(nonce) if process_table.PRESENT else _carriers_by_psutil(nonce)
    return [identity for identity in found if identity.pid != os.getpid()]


def sweep(nonce: str, *, seconds: float = 5.0, spares_jobs: bool = False) -> int:
    """Kill every carrier, repeatedly until none is found. Returns how many were killed.

    `spares_jobs`: not the processes of jobs that were submitted from inside the sandbox.
    """
    killed: set[Identity] = set()
    deadline = time.monotonic() + seconds
    while found := _without_jobs(carriers(nonce)) if spares_jobs else carriers(nonce):
        for identity in found:
            if send_signal(identity, _SIGKILL):
                killed.add(identity)
        if time.monotonic() > deadline:
            break  # what is left is blocked in the kernel and dies when the call returns
        time.sleep(_PAUSE_SECONDS)
    return len(killed)


def _without_jobs(found: list[Identity]) -> list[Identity]:
    if not found or not process_table.PRESENT:
        return found
    spared = job_keepers.keepers_among({identity.pid for identity in found})
    return [identity for identity in found if identity.pid not in spared]


def _carriers_in_proc(nonce: str) -> Iterator[Identity]:
    boot = process_table.boot_id()
    entry = b"\0" + f"{NONCE_VARIABLE}={nonce}".encode() + b"\0"
    mark = f" {process_table.MOUNT_PREFIX}{nonce} ".encode()
    unmarked = {_mount_namespace("self")}  # most processes share ours: one check for all of them
    for pid in process_table.pids():
        since = process_table.started(pid)
        if since is None:
            continue
        carries = entry in b"\0" + process_table.read(f"/proc/{pid}/environ")
        namespace = _mount_namespace(str(pid))
        if not carries and namespace not in unmarked:
            carries = mark in process_table.read(f"/proc/{pid}/mountinfo")
            if not carries:
                unmarked.add(namespace)
        if carries:
            yield Identity(pid, since, boot)


def _mount_namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _carriers_by_psutil(nonce: str) -> Iterator[Identity]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(NONCE_VARIABLE) == nonce:
                identity = identify(process.pid)
                if identity is not None:
                    yield identity
        except (psutil.Error, OSError):
            continue
