"""Durable files that other processes read: written under a temporary name, synced, renamed.

They are readable by their owner only, unless another mode is given. On a full disk a job's ballast
file is freed, once, so that its state can still be written.
"""

import errno
import fcntl
import itertools
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.files.disk_space import is_full
from trackside.files.json_record import numbered, parsed
from trackside.files.permissions import PRIVATE_FILE, open_file, private_opener

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BALLAST = ".ballast"
BALLAST_BYTES = 1 << 20
_serial = itertools.count()


def write_bytes(
    path: Path,
    data: bytes,
    *,
    mode: int = PRIVATE_FILE,
    spends_ballast: bool = True,
    lasts: bool = True,
) -> None:
    """Readers see the old or the new content, complete, also after a power cut.

    `mode`, less the umask, applies from the first byte on. What will soon be written again does not
    spend the ballast. What does not need to `last` waits for no disk: a power cut may leave the old
    content, the new, or an empty file, until `make_last`.
    """
    if spends_ballast:
        giving_up_ballast(path, lambda: _write(path, data, mode, lasts))
    else:
        _write(path, data, mode, lasts)


def make_last(path: Path) -> None:
    """Make a file durable that was written without `last`."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)


def create(path: Path, data: bytes) -> None:
    """Create a file in a folder that no other process sees yet: synced, directly under its name.
    Sync the folder when all files exist.
    """
    with open(path, "xb", opener=private_opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def giving_up_ballast(path: Path, action: Callable[[], None]) -> None:
    """Run it; on a full disk remove the ballast of a folder above `path`, and retry."""
    try:
        action()
    except OSError as error:
        ballast = next((f / BALLAST for f in path.parents[:5] if (f / BALLAST).exists()), None)
        if not is_full(error) or ballast is None:
            raise
        ballast.unlink(missing_ok=True)
        action()


def write_json(
    path: Path,
    record: Any,
    *,
    mode: int = PRIVATE_FILE,
    spends_ballast: bool = True,
    lasts: bool = True,
) -> None:
    data = json_bytes(record)
    write_bytes(path, data, mode=mode, spends_ballast=spends_ballast, lasts=lasts)


def write_record(
    path: Path, record: "DataclassInstance", *, spends_ballast: bool = True, lasts: bool = True
) -> None:
    """A dataclass, with the number of its format; `damaged_files.read` reads it."""
    write_json(path, numbered(record), spends_ballast=spends_ballast, lasts=lasts)


def json_bytes(record: Any) -> bytes:
    return json.dumps(record, indent=1).encode() + b"\n"


def read_json(path: Path) -> Any | None:
    """None without a file: not written yet is no error.

    `DamagedRecord`, a `ValueError`, if it is not JSON. `damaged_files.read` does not raise it.
    """
    try:
        return parsed(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def append_lines(path: Path, lines: bytes) -> None:
    """Synced, or not written at all; the lines of one call stay together though others append."""
    descriptor = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        drop_torn_line(descriptor)
        write_lines(descriptor, lines, path)
    finally:
        os.close(descriptor)


def drop_torn_line(descriptor: int) -> None:
    """Cut off a partial last line left by a crash: it was never reported."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.ftruncate(descriptor, os.pread(descriptor, size, 0).rfind(b"\n") + 1)


def write_lines(descriptor: int, lines: bytes, path: Path) -> None:
    """Append to a file opened for appending; the caller holds its lock."""
    size = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, lines) != len(lines):  # the disk became full in the middle
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def sync_folder(path: str | Path) -> None:
    """Make a rename or a new name in this folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, mode: int, lasts: bool) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_serial)}.part")
    try:
        with open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
            file.write(data)
            file.flush()
            if lasts:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if lasts:
        sync_folder(path.parent)
