"""What the kernel knows about the processes of a training: time used, bytes moved, where they
wait. Linux only; what cannot be read is left out."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_MOST_PROCESSES = 256

_WAITS = (
    ("lock", ("futex", "do_semtimedop", "semtimedop")),
    ("sleep", ("nanosleep",)),
    ("file lock", ("flock_lock", "posix_lock", "fcntl_setlk", "locks_lock")),
    ("opening a pipe", ("wait_for_partner", "fifo_open")),
    ("pipe", ("pipe_read", "pipe_write", "pipe_wait")),
    ("child process", ("do_wait", "kernel_wait", "pidfd")),
    ("disk", ("io_schedule", "nfs", "rpc_", "fuse", "folio_wait", "jbd2", "ext4", "bit_wait")),
    ("network", ("inet_", "tcp_", "sk_", "unix_", "wait_woken", "skb_")),
    ("terminal", ("tty",)),
    ("signal", ("do_sigtimedwait", "sigsuspend", "sys_pause", "do_pause")),
    ("poll", ("poll", "select", "ep_")),
)
"""What a thread waits for, by the function of the kernel that it sleeps in."""


@dataclass(frozen=True, slots=True)
class Use:
    """Of all threads of a process and of its children, but for our own."""

    cpu_seconds: float = 0.0
    moved_bytes: int = 0


def wait_of(pid: int, thread: int | None = None) -> str:
    """In plain words; "" if the kernel does not say, or the thread runs."""
    folder = _PROC / str(pid) / "task" / str(thread or pid)
    if _state(folder) == "D":
        return "disk"
    function = _text(folder / "wchan")
    return next((name for name, parts in _WAITS if any(p in function for p in parts)), "")


def switches(pid: int, thread: int) -> int:
    """How often a thread has gone to sleep."""
    text = _text(_PROC / str(pid) / "task" / str(thread) / "status")
    for line in text.splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return 0


def name_of(pid: int) -> str:
    return _text(_PROC / str(pid) / "comm").strip()


def moved_by(pid: int, thread: int) -> int:
    """Bytes that it has read and written, by any file."""
    lines = _text(_PROC / str(pid) / "task" / str(thread) / "io").splitlines()[:2]
    return sum(int(line.split()[1]) for line in lines)


def use_of(pids: list[int], without: frozenset[int]) -> Use:
    """`without`: threads that do not count."""
    cpu, moved = 0, 0
    for pid in pids:
        for thread in _threads(pid):
            if thread not in without:
                ran = _text(_PROC / str(pid) / "task" / str(thread) / "schedstat").split()
                cpu += int(ran[0]) if ran else 0
                moved += moved_by(pid, thread)
    return Use(cpu / 1e9, moved)


def tree(root: int) -> list[int]:
    """A process and all that it has started, those first that it started itself."""
    found = [root]
    for pid in found:
        found += children(pid)
        if len(found) > _MOST_PROCESSES:
            break
    return found[:_MOST_PROCESSES]


def children(pid: int) -> list[int]:
    texts = (
        _text(_PROC / str(pid) / "task" / str(thread) / "children") for thread in _threads(pid)
    )
    return [int(child) for text in texts for child in text.split()]


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    for line in _text(_PROC / str(pid) / "status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _threads(pid: int) -> Iterator[int]:
    try:
        yield from map(int, os.listdir(_PROC / str(pid) / "task"))
    except OSError:
        return


def _state(folder: Path) -> str:
    _, _, rest = _text(folder / "stat").rpartition(") ")
    return rest[:1]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
