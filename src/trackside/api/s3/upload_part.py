"""One part of a multipart upload on its way to disk.

It goes to its slot of the file that all parts share when it fits there and nobody wrote to that
slot before; otherwise to a file of its own.
"""

import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trackside import damage, durable
from trackside.api.s3.intake import Arrived
from trackside.json_record import DamagedRecord
from trackside.storage.partial_file import disk_full_named

SHARED = "data"
PART_LEAST_BYTES = 5 << 20
"""Of all but the last part."""
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_SLOT = "slot-bytes"
_CLAIMED, _WRITTEN = ".claimed", ".written"
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
    """Where it begins in that file."""

    def __post_init__(self) -> None:
        """Its record may be damaged: what it names is in the upload's folder, or nothing is."""
        if _FILE.fullmatch(self.file) is None or self.size < 0 or self.offset < 0:
            raise DamagedRecord(f"a part of {self.size} bytes in {self.file[:80]!r}")

    @property
    def is_shared(self) -> bool:
        return self.file == SHARED


class NewPart:
    """Without `keep`, the part that was there before stays."""

    def __init__(self, folder: str, number: int, size: int) -> None:
        self._folder = folder
        self._number = number
        self._claim = ""
        self._file = SHARED
        self._offset = 0
        self._descriptor = self._open_slot(size)
        if self._descriptor < 0:
            self._file, self._offset = f"{number:05}-{secrets.token_hex(8)}.own", 0
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with disk_full_named(folder):
                self._descriptor = os.open(os.path.join(folder, self._file), flags, 0o666)

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
        """The bytes are on disk before the record says that they are."""
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
        record = Path(self._folder, f"{self._number:05}.part.json")
        before = damage.read(Part, record)
        durable.write_json(record, asdict(part))
        if before is not None and not before.is_shared:
            Path(self._folder, before.file).unlink(missing_ok=True)
        if self._claim:
            os.rename(self._claim, self._claim.removesuffix(_CLAIMED) + _WRITTEN)
        self._claim = self._file = ""
        return part

    def close(self) -> None:
        """And remove what is not kept."""
        os.close(self._descriptor)
        with suppress(FileNotFoundError):
            if self._claim:
                os.unlink(self._claim)
            elif self._file:
                os.unlink(os.path.join(self._folder, self._file))

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
            os.close(os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return -1
        # Claimed before it is opened: whoever completes seals the file, then looks for claims.
        try:
            descriptor = os.open(os.path.join(self._folder, SHARED), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            os.unlink(claim)
            return -1
        self._claim, self._offset = claim, offset
        return descriptor

    def _slot_bytes(self, size: int) -> int:
        """Told by the first part to come, unless it can only be the last one."""
        path = os.path.join(self._folder, _SLOT)
        if size >= PART_LEAST_BYTES or self._number == 1:
            with suppress(FileExistsError):
                os.symlink(str(size), path)  # a file with its content, made in one step or not
        try:
            return int(os.readlink(path))
        except FileNotFoundError:
            return 0 if os.path.isdir(self._folder) else _gone(self._folder)


def make_shared(folder: str) -> None:
    os.close(os.open(os.path.join(folder, SHARED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))


def is_being_written(folder: str) -> bool:
    return any(name.endswith(_CLAIMED) for name in os.listdir(folder))


def copy_range(source: int, start: int, target: int, offset: int, size: int) -> None:
    """Inside the kernel where it can; FileNotFoundError is never its answer, EOFError may be."""
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
