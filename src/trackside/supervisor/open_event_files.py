"""Event files that a job's processes have open for writing, wherever they are.

A SummaryWriter may write to any folder. The files are found by their process below /proc, and
opened from there, so that they can be read to their end though the script deletes them or has
ended. A file that is opened and closed between two searches is missed.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from trackside.records.event_names import is_event_file
from trackside.supervisor.folder_scan import FileState
from trackside.system import process_table

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
PAUSE_SHARE = 0.1
"""Share of the time since the first search: writers are created when a script starts. A script that
sleeps for days costs its supervisor next to nothing.
"""
MOST_FILES = 64
MOST_PROCESSES = 1000

_WRITES = os.O_WRONLY | os.O_RDWR


class OpenEventFiles:
    """One host's. Not thread-safe. Paths are as the script sees them, without the first slash."""

    def __init__(
        self,
        root: Callable[[], int | None],
        covered: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is the process that all of the job's descend from, if there is one; folders below
        `covered` are uploaded by other parts.
        """
        self._root = root
        self._covered = tuple(f"{folder.rstrip('/')}/" for folder in covered)
        self._clock = clock
        self._began = self._due = clock()
        self._known_root: tuple[int, int | None] | None = None
        self._files: dict[str, int] = {}
        """Descriptors of our own."""
        self._inodes: set[tuple[int, int]] = set()

    def find(self) -> dict[str, FileState]:
        now = self._clock()
        if now >= self._due and len(self._files) < MOST_FILES:
            pause = PAUSE_SHARE * (now - self._began)
            self._due = now + min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            self._search()
        return {path: FileState.of(os.fstat(file)) for path, file in self._files.items()}

    def open(self, path: str) -> int:
        """A descriptor that the caller closes."""
        return os.open(f"/proc/self/fd/{self._files[path]}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def _search(self) -> None:
        root = self._root() if process_table.PRESENT else None
        if root is None:
            return
        known = root, process_table.started(root)
        if self._known_root is None:
            self._known_root = known
        if known[1] is None or known != self._known_root:
            return  # gone, and its pid may be reused
        for pid in _family(root):
            for name, target in _open_files(pid):
                if is_event_file(target) and not target.startswith(self._covered):
                    with suppress(OSError):
                        self._take(f"/proc/{pid}", name, target)

    def _take(self, process: str, name: str, target: str) -> None:
        status = os.stat(f"{process}/fd/{name}")
        inode = status.st_dev, status.st_ino
        path = target.removesuffix(" (deleted)").lstrip("/")
        if inode in self._inodes or path in self._files or len(self._files) >= MOST_FILES:
            return
        if stat.S_ISREG(status.st_mode) and _is_written(f"{process}/fdinfo/{name}"):
            self._files[path] = os.open(f"{process}/fd/{name}", os.O_RDONLY | os.O_CLOEXEC)
            self._inodes.add(inode)


def _family(root: int) -> list[int]:
    """The process and its descendants, without reading the whole process table."""
    found, waiting = [root], [root]
    while waiting and len(found) < MOST_PROCESSES:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    texts = [process_table.read(f"/proc/{pid}/task/{thread}/children") for thread in threads]
    return [int(child) for child in b" ".join(texts).split()]


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    """Number and target of each."""
    with suppress(OSError):  # the process has ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield name, os.readlink(f"/proc/{pid}/fd/{name}")


def _is_written(fdinfo: str) -> bool:
    for line in process_table.read(fdinfo).splitlines():
        if line.startswith(b"flags:"):
            return bool(int(line.split()[1], 8) & _WRITES)
    return False
