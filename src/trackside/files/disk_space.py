"""Whether a disk accepts data, as a text for readers of a job and for failed writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

LITTLE_BYTES = 64 * 1024
"""Free bytes on a disk on which nothing can continue."""

_MOUNTS = "/proc/self/mountinfo"
_GIVEN_UP = b"emergency_ro"


class Space(NamedTuple):
    folder: str
    free_bytes: int
    """For this user: root may use reserved blocks."""
    size_bytes: int
    free_files: int | None
    """None if the file system does not count them."""
    is_read_only: bool

    @property
    def is_full(self) -> bool:
        return not self.is_read_only and (self.free_bytes == 0 or self.free_files == 0)


def space_of(folder: str | Path) -> Space | None:
    """None for a missing path, and for file systems without a size."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if not found.f_blocks:
        return None
    is_root = os.geteuid() == 0
    blocks = found.f_bfree if is_root else found.f_bavail
    files = found.f_ffree if is_root else found.f_favail
    return Space(
        str(folder),
        blocks * found.f_frsize,
        found.f_blocks * found.f_frsize,
        files if found.f_files else None,
        bool(found.f_flag & os.ST_RDONLY) or _is_given_up(folder),
    )


def _is_given_up(folder: str | Path) -> bool:
    """Whether the kernel made it read-only after a disk error, though it is mounted for writing: as
    ext4 does since Linux 6.14.
    """
    try:
        device = os.stat(folder).st_dev
        with open(_MOUNTS, "rb") as file:
            mounts = file.read()
    except OSError:  # only on Linux
        return False
    if _GIVEN_UP not in mounts:
        return False
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    return any(
        fields[2] == number and _GIVEN_UP in fields[-1].split(b",")
        for fields in map(bytes.split, mounts.splitlines())
    )


def trouble(folder: Path) -> str:
    """Why nothing can be written below this folder; empty if it can, or if unknown."""
    space = space_of(folder)
    if space is None:
        return ""
    if space.is_read_only:
        return f"The disk of {space.folder!r} is read-only."
    if space.free_bytes < LITTLE_BYTES:
        return f"Disk full: the disk of {space.folder!r} has no space left."
    if space.free_files == 0:
        return f"Disk full: the disk of {space.folder!r} has no inodes left."
    return ""


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def takes_nothing(error: BaseException) -> bool:
    """Whether a write failed because the disk is full or read-only: it may succeed later."""
    return is_full(error) or is_read_only(error)


def is_read_only(error: BaseException) -> bool:
    """Whether a write failed because that file system is read-only."""
    return isinstance(error, OSError) and error.errno == errno.EROFS
