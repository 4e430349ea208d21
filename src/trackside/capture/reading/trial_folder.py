"""A trial's files: memory-mapped from this machine, or fetched from an object store."""

import mmap
import os
import resource
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackside.errors import ObjectNotFound
from trackside.files.json_record import DamagedRecord
from trackside.quick_dataclass import dataclass
from trackside.storage.locate import Location

_MAPS = 512
"""Files mapped at once; the system allows some 65,000 per process, for all libraries."""
_FETCHED_BYTES = 256 << 20
_FETCHED_SHARE = 8
"""At most this share of the process's memory limit."""
_WHOLE_BYTES = 32 << 20
"""Objects up to this size are fetched completely when a second part of them is needed."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    name: str
    """Below the trial's folder."""
    size_bytes: int | None
    """None before the first query."""
    etag: str | None = None
    """For the few files that are replaced: changes with them. None likewise."""


class TrialFolder:
    """Reads files. They never change once they have their name, so they can be cached."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._prefix = location.key.strip("/") + "/" if location.key.strip("/") else ""
        self._local: Path | None = location.local
        self._maps: OrderedDict[str, mmap.mmap] = OrderedDict()
        self._fetched = _ByteCache(_fetched_bytes())

    def list(self, prefix: str, after: str = "") -> Iterator[FoundFile]:
        """Files whose names start with `prefix`, in order, only those greater than `after`."""
        full_after = self._prefix + after if after else ""
        for entry in self.location.store.list(self._prefix + prefix, full_after):
            yield FoundFile(entry.key.removeprefix(self._prefix), entry.size_bytes, entry.etag)

    def exists(self, name: str) -> bool:
        return self.modified(name) is not None

    def modified(self, name: str) -> float | None:
        """By the store's clock; None if there is no such file."""
        try:
            return self.location.store.stat(self._prefix + name).modified
        except ObjectNotFound:
            return None

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Not cached: for small files and headers."""
        return self.location.store.get(self._prefix + name, start, end)

    def part(self, file: FoundFile, start: int, end: int) -> tuple[Any, int]:
        """A buffer that contains these bytes of a file, and its offset in the file."""
        if self._local is not None:
            return self._map(file.name), 0
        for part in ((file.name, 0, None), (file.name, start, end)):
            data = self._fetched.get(part)
            if data is not None:
                return data, part[1]
        if self._fetched.has_part_of(file.name) and (file.size_bytes or 0) <= _WHOLE_BYTES:
            part = (file.name, 0, None)
        data = self.read(*part)
        self._fetched.put(part, data)
        return data, part[1]

    def _map(self, name: str) -> mmap.mmap:
        mapped = self._maps.get(name)
        if mapped is not None:
            self._maps.move_to_end(name)
            return mapped
        assert self._local is not None
        descriptor = os.open(self._local / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise DamagedRecord(f"{name} is empty") from error
        finally:
            os.close(descriptor)
        self._maps[name] = mapped
        if len(self._maps) > _MAPS:
            self._maps.popitem(last=False)  # unmapped when its last array is gone
        return mapped


def _fetched_bytes() -> int:
    """Less in a process with little memory, such as a custom rule's."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if allowed == resource.RLIM_INFINITY:
        return _FETCHED_BYTES
    return min(_FETCHED_BYTES, allowed // _FETCHED_SHARE)


_Part = tuple[str, int, int | None]
"""File, first byte, end; None is the file's end."""


class _ByteCache:
    """The parts used last, up to so many bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._parts: OrderedDict[_Part, bytes] = OrderedDict()
        self._names: dict[str, int] = {}

    def has_part_of(self, name: str) -> bool:
        return name in self._names

    def get(self, part: _Part) -> bytes | None:
        data = self._parts.get(part)
        if data is not None:
            self._parts.move_to_end(part)
        return data

    def put(self, part: _Part, data: bytes) -> None:
        self._parts[part] = data
        self._names[part[0]] = self._names.get(part[0], 0) + 1
        self._size += len(data)
        while self._size > self._limit and len(self._parts) > 1:
            (name, *_), dropped = self._parts.popitem(last=False)
            self._size -= len(dropped)
            self._names[name] -= 1
            if self._names[name] == 0:
                del self._names[name]
