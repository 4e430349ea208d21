"""Whether a disk takes anything more, in words: for readers of a job and for failed writes."""

import errno
import os
from pathlib import Path

LITTLE_BYTES = 64 * 1024
"""Free on a disk on which nothing can go on."""


def is_full(error: BaseException) -> bool:
    """Whether a write failed for want of space."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def takes_nothing(error: BaseException) -> bool:
    """Whether a write failed because of the disk, be it full or read-only: it may succeed later."""
    return is_full(error) or (isinstance(error, OSError) and error.errno == errno.EROFS)


def trouble(folder: Path) -> str:
    """Why nothing can be written below this folder; empty when something can, or nobody knows."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return f"The disk of {str(folder)!r} is read-only."
    # Root may use the blocks that are kept back from others.
    num_free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if num_free * disk.f_frsize < LITTLE_BYTES:
        return f"Disk full: the disk of {str(folder)!r} has no space left."
    # Some file systems have no inodes to count.
    if disk.f_files and not (disk.f_ffree if os.geteuid() == 0 else disk.f_favail):
        return f"Disk full: the disk of {str(folder)!r} has no inodes left."
    return ""
