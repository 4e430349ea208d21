"""Files that another process reads: written under a temporary name, synced, renamed.

On a full disk a job's ballast file is given up, once, so that its records can still be written.
"""

import errno
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

BALLAST = ".ballast"
BALLAST_BYTES = 1 << 20
_serial = itertools.count()


def write_bytes(path: Path, data: bytes) -> None:
    """Readers see the old content or the new, whole, also after a power cut."""
    giving_up_ballast(path, lambda: _write(path, data))


def create(path: Path, data: bytes) -> None:
    """A new file in a folder that nobody else sees yet: synced, under its name at once. Sync the
    folder when all of them are there."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def giving_up_ballast(path: Path, action: Callable[[], None]) -> None:
    """Do it; on a full disk drop the ballast that a folder above `path` holds, and try again."""
    try:
        action()
    except OSError as error:
        ballast = next((f / BALLAST for f in path.parents[:5] if (f / BALLAST).exists()), None)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or ballast is None:
            raise
        ballast.unlink(missing_ok=True)
        action()


def write_json(path: Path, record: Any) -> None:
    write_bytes(path, json.dumps(record, indent=1).encode() + b"\n")


def read_json(path: Path) -> Any | None:
    """None when there is no such file: not written yet is an answer, not an error."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_folder(path: str | Path) -> None:
    """Make a rename or a new name in this folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_serial)}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
