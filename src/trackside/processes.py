"""Which process is meant: a pid is reused, a pid with its start time is not.

Also finds and ends every process that carries a sandbox's nonce, however far it has wandered.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from trackside import procfs

if not procfs.PRESENT:
    import psutil

NONCE_VARIABLE = "TRACKSIDE_NONCE"
"""Set in the environment of everything that runs in a process sandbox."""

_SIGKILL = 9
_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for all time."""

    pid: int
    started: int
    """Linux: clock ticks since boot. Elsewhere: microseconds since the epoch."""
    boot_id: str
    """Tells equal pids and ticks of two boots apart; empty where the kernel has none."""


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None when there is none, or only its zombie."""
    since = started(pid)
    return None if since is None else Identity(pid, since, boot_id())


def myself() -> Identity:
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def started(pid: int) -> int | None:
    """When a process began, as in `Identity.started`; None when it is gone or a zombie."""
    return procfs.started(pid) if procfs.PRESENT else _created(pid)


def boot_id() -> str:
    return procfs.boot_id() if procfs.PRESENT else ""


def send_signal(identity: Identity, number: int, *, group: bool = False) -> bool:
    """Signal this very process (or the group it leads). False when it is gone, which is no error.

    Whoever has the pid today is not touched.
    """
    if identity.boot_id != boot_id():
        return False
    if procfs.PRESENT:
        return procfs.signal_exactly(identity.pid, identity.started, number, group=group)
    if not is_alive(identity):
        return False
    try:
        (os.killpg if group else os.kill)(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def carriers(nonce: str) -> list[Identity]:
    """Live processes of the sandbox with this nonce, the asking process left out.

    They are known by TRACKSIDE_NONCE in the environment they were started with and, on Linux, by
    the mount that marks the sandbox's namespace, which stays when a process clears its environment.
    Processes of other users are not looked into.
    """
    found = _carriers_in_proc(nonce) if procfs.PRESENT else _carriers_by_psutil(nonce)
    return [identity for identity in found if identity.pid != os.getpid()]


def sweep(nonce: str, *, seconds: float = 5.0) -> int:
    """Kill every carrier, again and again until none is found. Returns how many were killed."""
    killed: set[Identity] = set()
    deadline = time.monotonic() + seconds
    while found := carriers(nonce):
        for identity in found:
            if send_signal(identity, _SIGKILL):
                killed.add(identity)
        if time.monotonic() > deadline:
            break  # what is left sits in the kernel and dies when it comes out
        time.sleep(_PAUSE_SECONDS)
    return len(killed)


def mount_mark(nonce: str) -> str:
    """The source named in a sandbox's first mount."""
    return f"trackside-{nonce}"


def _carriers_in_proc(nonce: str) -> Iterator[Identity]:
    boot = boot_id()
    entry = b"\0" + f"{NONCE_VARIABLE}={nonce}".encode() + b"\0"
    mark = f" {mount_mark(nonce)} ".encode()
    unmarked = {_mount_namespace("self")}  # most processes share ours: one look for all of them
    for pid in procfs.pids():
        since = procfs.started(pid)
        if since is None:
            continue
        carries = entry in b"\0" + procfs.read(f"/proc/{pid}/environ")
        namespace = _mount_namespace(str(pid))
        if not carries and namespace not in unmarked:
            carries = mark in procfs.read(f"/proc/{pid}/mountinfo")
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


def _created(pid: int) -> int | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time() * 1_000_000)
    except psutil.Error:
        return None
