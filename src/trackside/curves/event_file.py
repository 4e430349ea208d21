"""One event file being written: entries are collected in a list, then encoded and written in bulk.

Adding costs an append; encoding and writing happen in `flush`, usually in a thread.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from trackside.curves import records, wire

Step = int | None
Entry = tuple[str | None, float | Callable[[], bytes], Step, float]
"""Tag, value, step and time of a scalar; or None and a function that makes the event's content."""

_number = count()


class EventFile:
    """Created with its version record, so that readers recognize it at once."""

    def __init__(self, folder: Path, suffix: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._open(*_create(folder, suffix), 0)
        self.add((None, wire.file_version, None, time.time()))
        try:
            self.flush()
        except OSError:  # a full disk: the caller may retry
            os.close(self._descriptor)
            self.path.unlink(missing_ok=True)
            raise

    @classmethod
    def reopen(cls, path: Path, size: int) -> "EventFile":
        """Continue a file after its first `size` bytes."""
        file = cls.__new__(cls)
        file._open(path, os.open(path, os.O_WRONLY), size)
        os.ftruncate(file._descriptor, size)
        return file

    def _open(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._entries: list[Entry] = []
        self.add: Callable[[Entry], None] = self._entries.append
        """Atomic, and never waits."""
        self._lock = threading.Lock()
        self._tags: dict[str, bytes] = {}
        self._encoded = b""
        self._size = size

    @property
    def num_waiting(self) -> int:
        return len(self._entries)

    def flush(self) -> None:
        """Everything added before is in the file when this returns; else `OSError`."""
        with self._lock:
            entries = self._entries[:]
            del self._entries[: len(entries)]
            self._encoded += self._encode(entries)
            self._write()

    def close(self) -> None:
        """Closed in any case; `OSError` if something could not be written."""
        try:
            self.flush()
        finally:
            with self._lock:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                    self._descriptor = -1

    def _write(self) -> None:
        """All or nothing: a partial record would hide everything after it from readers."""
        if not self._encoded:
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_WRONLY)  # used after close, as torch allows
        left = memoryview(self._encoded)
        at = self._size
        while left:
            written = os.pwrite(self._descriptor, left, at)
            left, at = left[written:], at + written
        self._encoded, self._size = b"", at

    def _encode(self, entries: list[Entry]) -> bytes:
        """The same as `records.frame(wire.event(...))` for each, with the common case unrolled."""
        parts: list[bytes] = []
        add, header, checksum = parts.append, records.header, _CHECKSUM.pack
        crc32c, masked, tags = records.crc32c, records.masked, self._tags
        step_of, step_bytes = 0, b""
        for tag, value, step, moment in entries:
            if callable(value):
                add(records.frame(wire.event(moment, step, value())))
                continue
            assert tag is not None
            if step != step_of:
                step_of, step_bytes = step or 0, wire.integer(2, step or 0)
            front = tags.get(tag) or self._front(tag)
            content = _TIME.pack(9, moment) + step_bytes + front + wire.as_float(value)
            add(header(len(content)))
            add(content)
            add(checksum(masked(crc32c(content))))
        return b"".join(parts)

    def _front(self, tag: str) -> bytes:
        """An event's bytes between its step and the four of its value."""
        whole = wire.summary(wire.simple_value(tag, 0.0))
        self._tags[tag] = whole[:-4]
        return self._tags[tag]


_CHECKSUM = struct.Struct("<I")
_TIME = struct.Struct("<Bd")


def _create(folder: Path, suffix: str) -> tuple[Path, int]:
    """Named as TensorFlow does: time, host, process, and a number within it."""
    while True:
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
            f".{os.getpid()}.{next(_number)}{suffix}"
        )
        try:
            path = folder / name
            return path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            continue
