"""Writes large files past the page cache.

Through the cache, each byte is copied into a page that the kernel first has to find: with memory
full of other files that takes longer than the disk, on cores that training could use, and it evicts
the data set that training reads.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 4096
"""Length, file offset and address must be multiples of it: no disk has larger blocks."""
_O_DIRECT: int = getattr(os, "O_DIRECT", 0)  # Linux has it
_REFUSED = (errno.EINVAL, errno.ENOTSUP)


class DirectOutput:
    """Owns one buffer; for one thread. Writes as usual if the file system does not support it."""

    def __init__(self) -> None:
        self._buffer = np.frombuffer(mmap.mmap(-1, _CHUNK_BYTES), np.uint8)

    def write(self, descriptor: int, parts: Iterable[Any]) -> None:
        """All parts, end to end, from the beginning of an empty file."""
        _switch(descriptor, on=True)
        filled = 0
        for part in parts:
            rest = np.frombuffer(part, np.uint8)
            while rest.size:
                taken = min(rest.size, _CHUNK_BYTES - filled)
                self._buffer[filled : filled + taken] = rest[:taken]
                filled, rest = filled + taken, rest[taken:]
                if filled == _CHUNK_BYTES:
                    _write(descriptor, self._buffer)
                    filled = 0
        whole = filled - filled % _BLOCK_BYTES
        _write(descriptor, self._buffer[:whole])
        _switch(descriptor, on=False)
        _write(descriptor, self._buffer[whole:filled])


def _write(descriptor: int, data: Any) -> None:
    left = memoryview(data)
    while left:
        try:
            written = os.write(descriptor, left)
        except OSError as error:
            if error.errno not in _REFUSED or not _switch(descriptor, on=False):
                raise
            continue
        left = left[written:]
        if len(left) % _BLOCK_BYTES:
            _switch(descriptor, on=False)


def _switch(descriptor: int, *, on: bool) -> bool:
    """Whether the flags changed."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    wanted = flags | _O_DIRECT if on else flags & ~_O_DIRECT
    if wanted == flags:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return False
    return True
