"""The kernel's process table, and signals that cannot hit a recycled pid.

Reads /proc and imports next to nothing, for programs that must start fast; without /proc (macOS)
it knows only when a process began, by psutil. `system/processes.py` is for everyone else.
"""

# The C half of `signal`; the other half imports enum, which takes milliseconds.
import _signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOUNT_PREFIX = "trackside-"
"""Prefix of the source of a sandbox's first mount; the sandbox's mark follows."""
_MAX_LISTINGS = 100  # if others start processes without end

WAKE_SIGNAL = _signal.SIGURG
"""Requests a supervisor that pauses to check its job now. Ignored by processes without a
handler."""

PRESENT = os.path.exists("/proc/self/stat")
"""There is a /proc. Without it only `started` and `boot_id` work."""

if not PRESENT:
    import psutil


_boot_id: str | None = None


def boot_id() -> str:
    """Different after every boot; empty if the kernel has none."""
    global _boot_id
    if _boot_id is None:  # no process survives a reboot
        _boot_id = read("/proc/sys/kernel/random/boot_id").decode().strip()
    return _boot_id


def started(pid: int) -> int | None:
    """When the process began. None when it is gone or a zombie.

    In clock ticks since boot; without /proc in microseconds since the epoch.
    """
    if not PRESENT:
        return _created(pid)
    entry = _entry(pid)
    return None if entry is None else entry[1]


def lock_holder(descriptor: int) -> int | None:
    """The pid of the process that has an flock on this open file, where the kernel reports it."""
    status = os.fstat(descriptor)
    for line in read("/proc/locks").decode().splitlines():
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK" or not fields[4].isdigit():
            continue  # "->" marks a waiting process, too
        # The device there is the file system's own number, which is not always stat's.
        if fields[5].rpartition(":")[2] == str(status.st_ino) and _has_open(int(fields[4]), status):
            return int(fields[4])
    return None


def _has_open(pid: int, status: os.stat_result) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # gone, or another user's
        return False
    for name in names:
        try:
            if os.path.samestat(os.stat(f"{folder}/{name}"), status):
                return True
        except OSError:
            continue
    return False


def parents() -> dict[int, tuple[int, int]]:
    """Every live process: pid to (its parent's pid, its own start in ticks)."""
    found = {}
    for pid in pids():
        entry = _entry(pid)
        if entry is not None:
            found[pid] = entry
    return found


def descendants(
    root: int, without: int = 0, spares: "Callable[[int], bool] | None" = None
) -> dict[int, int]:
    """Live processes below `root` with their start ticks, except `without`, those that `spares`
    holds for, and those below one of them."""
    table = parents()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        if pid != without and not (spares and spares(pid)):
            found[pid] = table[pid][1]
            waiting += children.get(pid, ())
    return found


def pids() -> "Iterator[int]":
    """Every process, each read before the next listing.

    A process that keeps forking and exiting is never in an old list; so the list is read again
    until it has nothing new, with hardly any time between reading and use.
    """
    seen: set[str] = set()
    for _ in range(_MAX_LISTINGS):
        fresh = [name for name in os.listdir("/proc") if name.isdigit() and name not in seen]
        if not fresh:
            return
        seen.update(fresh)
        for name in fresh:
            yield int(name)


def signal_exactly(pid: int, since: int, number: int, *, group: bool = False) -> bool:
    """Signal the process that began at tick `since`, or its group; False when gone or not ours."""
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
    """A file of /proc; empty when the process is gone or may not be read by us."""
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
    # A leader that has ended looks like a zombie while its other threads continue.
    if state in (b"Z", b"X") and int(num_threads) <= 1:
        return None
    return int(parent), int(ticks)


_PIDFD_SIGNAL_PROCESS_GROUP = 4  # since Linux 6.9


def _signal_descriptor(descriptor: int, pid: int, number: int, *, group: bool) -> bool:
    try:
        flags = _PIDFD_SIGNAL_PROCESS_GROUP if group else 0
        _signal.pidfd_send_signal(descriptor, number, None, flags)
    except (ProcessLookupError, PermissionError):
        return False
    except OSError:  # an older kernel does not have the flag
        return _kill(pid, number, group=group)
    return True


def _kill(pid: int, number: int, *, group: bool) -> bool:
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _created(pid: int) -> int | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time() * 1_000_000)
    except psutil.Error:
        return None
