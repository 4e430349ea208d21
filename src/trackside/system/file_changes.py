"""Waits until one of some files changes, as the kernel reports it (inotify of Linux).

What another machine writes to a shared folder is not reported.
"""

import ctypes
import os
import select

from trackside.system.linux_calls import libc

_IN_MODIFY, _IN_ATTRIB, _IN_MOVE_SELF, _IN_DELETE_SELF = 0x2, 0x4, 0x800, 0x400
_CHANGES = _IN_MODIFY | _IN_ATTRIB | _IN_MOVE_SELF | _IN_DELETE_SELF
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_READ_BYTES = 1 << 16


class FileChanges:
    """Call `close`. `OSError` where the system has no inotify, or no more of it for this user."""

    def __init__(self) -> None:
        try:
            self._descriptor: int = libc.inotify_init1(_FLAGS)
        except AttributeError as error:
            raise OSError("this system has no inotify") from error
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"inotify_init1: {os.strerror(number)}")
        self._paths: set[str] = set()

    def watch(self, path: str) -> bool:
        """Whether this file is watched only from now on: what changed before is not reported.
        False also for one that does not exist yet."""
        if path in self._paths:
            return False
        if libc.inotify_add_watch(self._descriptor, os.fsencode(path), _CHANGES) < 0:
            return False
        self._paths.add(path)
        return True

    def wait(self, seconds: float) -> bool:
        """Whether something has changed since the last call; returns as soon as it does."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if ready:
            os.read(self._descriptor, _READ_BYTES)
        return bool(ready)

    def close(self) -> None:
        os.close(self._descriptor)
