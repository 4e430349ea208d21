"""One part of a multipart upload on its way to disk.

It is written to its slot in the file that all parts share, if it fits there and the slot is unused;
otherwise to a file of its own.
"""

import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trackside.api.s3.beneath import Folder
from trackside.api.s3.bucket import TIME_MOST
from trackside.api.s3.verified_body import Arrived
from trackside.files import durable
from trackside.storage.partial_file import disk_full_named

SHARED = "data"
PART_LEAST_BYTES = 5 << 20
"""Of all but the last part."""
_SLOT = "slot-bytes"
_CLAIMED, _WRITTEN = ".claimed", ".written"
_RECORD = ".part.json"
_RECORD_MOST_BYTES = 64 << 10
_OWN = re.compile(r"\d{5}-[0-9a-f]{16}\.own")
_HEX = re.compile(r"[0-9a-f]{32}")
_SHARED_MOST_BYTES = 8 << 40
"""Well below what file systems take for a file with holes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    number: int
    etag: str
    size: int
    checksum: str
    modified: float
    file: str
    """The shared one, or its own."""
    offset: int = 0
    """Where it starts in that file."""

    @property
    def is_shared(self) -> bool:
        return self.file == SHARED


def parts_in(folder: Folder) -> dict[int, Part]:
    """By number, in order. An invalid record is ignored: a user who can write to the folder could
    otherwise name files elsewhere."""
    found: dict[int, Part] = {}
    for name in os.listdir(folder.descriptor):
        if name.endswith(_RECORD) and not name.startswith("."):
            with suppress(FileNotFoundError, ValueError, TypeError, RecursionError):
                part = _read_part(folder, name)
                found[part.number] = part
    return dict(sorted(found.items()))


def _read_part(folder: Folder, name: str) -> Part:
    with open(folder.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        kept: dict[str, Any] = json.loads(file.read(_RECORD_MOST_BYTES))
    part = Part(**kept)
    numbers = (part.number, part.size, part.offset)
    if not all(type(each) is int and 0 <= each <= _SHARED_MOST_BYTES for each in numbers):
        raise ValueError("no numbers")
    if not 0 <= part.modified <= TIME_MOST or not isinstance(part.checksum, str):
        raise ValueError("no time and no checksum")
    if part.file != SHARED and not _OWN.fullmatch(part.file):
        raise ValueError("no file of a part")
    if not _HEX.fullmatch(part.etag):
        raise ValueError("no MD5")
    return part


class NewPart:
    """Without `keep`, the previous version of the part stays."""

    def __init__(self, folder: Folder, number: int, size: int) -> None:
        """The folder is closed with it."""
        self._open = folder
        self._folder = folder.path
        self._number = number
        self._claim = ""
        self._file = SHARED
        self._offset = 0
        self._descriptor = self._open_slot(size)
        if self._descriptor < 0:
            self._file, self._offset = f"{number:05}-{secrets.token_hex(8)}.own", 0
            with disk_full_named(self._folder):
                self._descriptor = folder.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def write_at(self, data: bytes, position: int) -> None:
        view = memoryview(data)
        offset = self._offset + position
        with disk_full_named(self._folder):
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view, offset = view[written:], offset + written

    def copy_from(self, source: int, start: int, size: int) -> None:
        with disk_full_named(self._folder):
            copy_range(source, start, self._descriptor, self._offset, size)

    def keep(self, arrived: Arrived) -> Part:
        """The bytes are on disk before the record says so."""
        with disk_full_named(self._folder):
            os.fsync(self._descriptor)
        part = Part(
            number=self._number,
            etag=arrived.md5.hex(),
            size=arrived.size,
            checksum=arrived.checksum,
            modified=time.time(),
            file=self._file,
            offset=self._offset,
        )
        name = f"{self._number:05}{_RECORD}"
        before = None
        with suppress(FileNotFoundError, ValueError, TypeError, RecursionError):
            before = _read_part(self._open, name)
        durable.write_json(Path(self._folder, name), asdict(part))
        if before is not None and not before.is_shared:
            Path(self._folder, before.file).unlink(missing_ok=True)
        if self._claim:
            os.rename(self._claim, self._claim.removesuffix(_CLAIMED) + _WRITTEN)
        self._claim = self._file = ""
        return part

    def close(self) -> None:
        """And remove what is not stored."""
        os.close(self._descriptor)
        with suppress(FileNotFoundError):
            if self._claim:
                os.unlink(self._claim)
            elif self._file:
                os.unlink(os.path.join(self._folder, self._file))
        self._open.close()

    def _open_slot(self, size: int) -> int:
        """-1 when the part needs a file of its own."""
        slot_bytes = self._slot_bytes(size)
        offset = (self._number - 1) * slot_bytes
        if size > slot_bytes or offset + size > _SHARED_MOST_BYTES:
            return -1
        claim = os.path.join(self._folder, f"{self._number:05}{_CLAIMED}")
        if os.path.exists(claim.removesuffix(_CLAIMED) + _WRITTEN):
            return -1
        try:
            os.close(os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return -1
        # Claimed before it is opened: completion seals the file, then checks for claims.
        try:
            descriptor = self._open.open(SHARED, os.O_RDWR)
        except FileNotFoundError:
            os.unlink(claim)
            return -1
        self._claim, self._offset = claim, offset
        return descriptor

    def _slot_bytes(self, size: int) -> int:
        """Defined by the first part to arrive, unless it can only be the last one."""
        path = os.path.join(self._folder, _SLOT)
        if size >= PART_LEAST_BYTES or self._number == 1:
            with suppress(FileExistsError):
                os.symlink(str(size), path)  # a file with its content, made in one step or not
        try:
            return int(os.readlink(path))
        except ValueError:
            return 0  # nothing of ours
        except FileNotFoundError:
            return 0 if os.fstat(self._open.descriptor).st_nlink else _gone(self._folder)


def make_shared(folder: Folder) -> None:
    os.close(folder.open(SHARED, os.O_WRONLY | os.O_CREAT))


def is_being_written(folder: Folder) -> bool:
    return any(name.endswith(_CLAIMED) for name in os.listdir(folder.descriptor))


def copy_range(source: int, start: int, target: int, offset: int, size: int) -> None:
    """Inside the kernel where possible; never raises FileNotFoundError, but may raise EOFError."""
    while size:
        done = _copied(source, start, target, offset, size)
        if done == 0:
            raise EOFError("the source is shorter than it was")
        start, offset, size = start + done, offset + done, size - done


def _copied(source: int, start: int, target: int, offset: int, size: int) -> int:
    if hasattr(os, "copy_file_range"):
        with suppress(OSError):  # another file system or kernel
            if done := os.copy_file_range(source, target, size, start, offset):
                return done
    return os.pwrite(target, os.pread(source, min(size, 1 << 20), start), offset)


def _gone(folder: str) -> int:
    raise FileNotFoundError(folder)
