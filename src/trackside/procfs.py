"""Linux's process table, read from /proc, and signals that cannot hit a recycled pid.

Imports next to nothing, for programs that must start fast; `processes.py` is for everyone else.
"""

# The C half of `signal`; the other half imports enum, which takes milliseconds.
import _signal  # type: ignore[import-not-found]
import os

PRESENT = os.path.exists("/proc/self/stat")


def boot_id() -> str:
    """Different after every start of the machine; empty where the kernel has none."""
    return read("/proc/sys/kernel/random/boot_id").decode().strip()


def started(pid: int) -> int | None:
    """When the process began, in clock ticks since boot. None when it is gone or a zombie."""
    entry = _entry(pid)
    return None if entry is None else entry[1]


def parents() -> dict[int, tuple[int, int]]:
    """Every live process: pid to (its parent's pid, its own start in ticks)."""
    found = {}
    for pid in pids():
        entry = _entry(pid)
        if entry is not None:
            found[pid] = entry
    return found


def descendants(root: int, without: int = 0) -> dict[int, int]:
    """Live processes below `root` with their start ticks, but for `without` and those below it."""
    table = parents()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        if pid != without:
            found[pid] = table[pid][1]
            waiting += children.get(pid, ())
    return found


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def signal_exactly(pid: int, since: int, number: int, *, group: bool = False) -> bool:
    """Signal the process that began at tick `since`, or its group; False when it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):  # before Linux 5.3, or a Python built for one
        return started(pid) == since and _kill(pid, number, group=group)
    try:
        # The descriptor stays with one process: if the check holds now, the signal goes to it.
        return started(pid) == since and _signal_descriptor(descriptor, pid, number, group=group)
    finally:
        os.close(descriptor)


def read(path: str) -> bytes:
    """A file of /proc; empty when the process has gone or is not ours to look at."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def _entry(pid: int) -> tuple[int, int] | None:
    # The command's name, in brackets, may itself hold blanks and brackets.
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        return None
    state, parent, num_threads, ticks = fields[0], fields[1], fields[17], fields[19]
    # A leader that has ended looks like a zombie while its other threads run on.
    if state in (b"Z", b"X") and int(num_threads) <= 1:
        return None
    return int(parent), int(ticks)


_PIDFD_SIGNAL_PROCESS_GROUP = 4  # since Linux 6.9


def _signal_descriptor(descriptor: int, pid: int, number: int, *, group: bool) -> bool:
    try:
        flags = _PIDFD_SIGNAL_PROCESS_GROUP if group else 0
        _signal.pidfd_send_signal(descriptor, number, None, flags)
    except ProcessLookupError:
        return False
    except OSError:
        if not group:
            raise
        return _kill(pid, number, group=True)
    return True


def _kill(pid: int, number: int, *, group: bool) -> bool:
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
