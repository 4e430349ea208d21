"""Opens files in a job's folders without following links out of them.

A script may put links where its tensors are expected. A process with more rights than the script,
or one that reads for another user, must not follow them below the folder that it trusts.
"""

import errno
import os
import stat
from pathlib import Path

_NO_WAY = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
"""A link, something else than a folder on the way, a FIFO without a reader."""


def open_file_below(base: Path, below: str) -> int:
    """A descriptor to read the regular file `below` the trusted folder `base`.

    `FileNotFoundError` for what is not there, is a link, or is behind one.
    """
    folder, _, name = below.strip("/").rpartition("/")
    parent = open_folder_below(base, folder)
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = _open(parent, name, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _missing(below)
    return descriptor


def open_folder_below(base: Path, below: str) -> int:
    """Likewise for a folder; `below` may be empty."""
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in filter(None, below.split("/")):
        try:
            inner = _open(descriptor, name, os.O_RDONLY | os.O_DIRECTORY)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _open(folder: int, name: str, flags: int) -> int:
    if name == "..":
        raise _missing(name)
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in _NO_WAY:
            raise _missing(name) from None
        raise


def _missing(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
