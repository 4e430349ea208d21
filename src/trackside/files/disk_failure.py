"""Whether a process failed because of a disk: which folder is on a full or read-only one.

Derived from the process's output and the current state of the file systems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from trackside.files.disk_space import Space, space_of
from trackside.texts.quantities import size

_MEANS_FULL = re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")
_MEANS_QUOTA = re.compile(r"Disk quota exceeded|\[Errno 122\]")
# An unreadable file may cause some of these texts, too: they count only if a disk is full.
_MAY_MEAN_FULL = re.compile(
    r"inline_container|iostream error|file write failed|PytorchStreamWriter|disk is full"
)
_SAID_FULL = re.compile(
    r"The disk of '[^'\n]*' is full|The disk quota .*is used up|A disk was full"
)
"""As `disk_failure` says it."""
_MEANS_READ_ONLY = re.compile(r"Read-only file system|\[Errno 30\]")
_PATH = re.compile(
    r"(?:No space left on device|Disk quota exceeded|Read-only file system)[^\n]*?['\"](/[^'\"\n]+)"
)
_LITTLE_BYTES = 4 << 20
"""A disk that was full may have a little space again: our jobs free their ballast."""
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"})
"""File systems that respond at once; a network's may never."""
_MOST_TOLD = 3
_MOUNTS = "/proc/self/mounts"
_OCTAL = re.compile(r"\\([0-7]{3})")


def disk_failure(output: str, folders: Sequence[str], *, in_home: str = "") -> str:
    """A sentence without its full stop; "" unless a disk is the cause.

    `folders` are where the process may have written; those below `in_home` are in TRACKSIDE_HOME.
    """
    named = [_existing(path) for path in _PATH.findall(output)[-1:]]
    if _MEANS_READ_ONLY.search(output):
        return _read_only(named)
    if _MEANS_QUOTA.search(output):
        where = f" of {named[0]!r}" if named else ""
        return f"The disk quota{where} is used up; delete files there or request more"
    by_mention = sorted(folders, key=lambda folder: folder not in output)
    spaces = [space for folder in [*named, *by_mention] if (space := space_of(folder))]
    if full := next((space for space in spaces if space.is_full), None):
        return full_disk(full, in_home)
    is_named, may_mean = _MEANS_FULL.search(output), _MAY_MEAN_FULL.search(output)
    if not is_named and not may_mean:
        return ""
    if found := [space for space in spaces if _is_nearly_full(space)]:
        return full_disk(found[0], in_home)
    if not named and (found := [space for space in _mounted() if _is_nearly_full(space)]):
        # It is unknown whether the process wrote there: all of them are named.
        return ". ".join(full_disk(space, in_home) for space in found[:_MOST_TOLD])
    if not is_named:
        return ""
    if not spaces:
        return "A disk was full"
    least = spaces[0] if named else min(spaces, key=lambda space: space.free_bytes)
    return (
        f"A disk was full; that of {least.folder!r} has {size(least.free_bytes)} of "
        f"{size(least.size_bytes)} free now"
    )


def means_full(reason: str) -> bool:
    """Whether the reason of a failure names a full disk or a used-up quota: its own sentence, not
    the log's lines below it."""
    sentence, _, _ = reason.partition("\nTraceback")
    return bool(_MEANS_FULL.search(sentence) or _SAID_FULL.search(sentence))


def _is_nearly_full(space: Space) -> bool:
    little = min(_LITTLE_BYTES, space.size_bytes // 10)
    return space.is_full or (not space.is_read_only and space.free_bytes < little)


def full_disk(space: Space, in_home: str = "") -> str:
    what = f"{size(space.free_bytes)} of {size(space.size_bytes)} are free"
    if space.free_files == 0 and space.free_bytes:
        what = "it has no space for another file (inodes)"
    larger = "use a folder on a larger disk"
    if in_home and f"{space.folder}/".startswith(f"{in_home}/"):
        larger = "set TRACKSIDE_HOME to a folder on a larger disk"
    return f"The disk of {space.folder!r} is full, {what}. Free some space there, or {larger}"


def _read_only(named: Sequence[str]) -> str:
    what = f"{named[0]!r} is" if named else "What the script wrote to is"
    return f"{what} on a read-only file system; write below /opt/ml/model or /opt/ml/output/data"


def _existing(path: str) -> str:
    """The folder that a file is in, or should have been."""
    folder = os.path.dirname(path)
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _mounted() -> Iterator[Space]:
    """Every local disk that this process sees, the last one mounted first."""
    try:
        with open(_MOUNTS, errors="replace") as file:
            entries = [line.split() for line in file]
    except OSError:
        return
    for entry in reversed(entries):
        if len(entry) > 2 and entry[2] in _LOCAL:
            folder = _OCTAL.sub(lambda found: chr(int(found[1], 8)), entry[1])
            if space := space_of(folder):
                yield space
