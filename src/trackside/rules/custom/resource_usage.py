"""Memory and task counts of a process tree, where no control group counts them."""

import os
from collections.abc import Iterable

from trackside.system import process_table

if not process_table.PRESENT:
    import psutil

_PROPORTIONAL = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_RESIDENT = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


def tree_of(root: int) -> list[int]:
    """The process and its living descendants."""
    if not process_table.PRESENT:
        return _tree_by_psutil(root)
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return [root, *process_table.descendants(root)]
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for thread in _threads(pid):
            waiting += map(int, process_table.read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def memory_of(pids: Iterable[int]) -> int:
    """In bytes: private memory plus the proportional share of shared memory, without the page
    cache, which the system can reclaim.
    """
    return sum(map(_memory, pids))


def tasks_of(pids: Iterable[int]) -> int:
    """Threads; each process has at least one."""
    if not process_table.PRESENT:
        return sum(1 for _ in pids)
    return sum(len(_threads(pid)) for pid in pids)


def space_of(place: str) -> int:
    """Bytes used in an in-memory file system; 0 when it is not visible."""
    try:
        status = os.statvfs(place)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _memory(pid: int) -> int:
    if not process_table.PRESENT:
        return _memory_by_psutil(pid)
    exact = _kilobytes(f"/proc/{pid}/smaps_rollup", _PROPORTIONAL)
    # A process can hide the first from its own user, but not the second.
    return (exact or _kilobytes(f"/proc/{pid}/status", _RESIDENT)) << 10


def _kilobytes(path: str, names: tuple[bytes, ...]) -> int:
    lines = process_table.read(path).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _tree_by_psutil(root: int) -> list[int]:
    try:
        return [root, *(each.pid for each in psutil.Process(root).children(recursive=True))]
    except psutil.Error:
        return []


def _memory_by_psutil(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
