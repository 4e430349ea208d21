"""Log groups and streams that programs make for themselves: a folder and a file each, below the
server's. Written line by line, read as the logs of jobs are.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside import durable
from trackside.api.log_streams import Event, Place
from trackside.jobs.log_skim import MayHold
from trackside.log_lines import line_start, near_line

_GROUP = "group.json"
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class OwnStream:
    path: Path
    name: str
    created_ms: int

    def events(
        self, start: Place | None = None, may_hold: MayHold | None = None
    ) -> Iterator[Event]:
        """In the order they came; none is told as earlier than the one before it."""
        start = start or Place(floor_ms=self.created_ms)
        floor = start.floor_ms
        with self.path.open("rb") as file:
            offset = start.offset or len(file.readline())  # past who it is
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # on its way
                time_ms, message = json.loads(line)
                place = Place(start.attempt, offset, floor)
                floor, offset = max(floor, time_ms), offset + len(line)
                yield Event(floor, message, place, Place(start.attempt, offset, floor))

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """When its first event was, and about when its last one was."""
        first = next(self.events(), None)
        return None if first is None else (first.time_ms, int(self.path.stat().st_mtime * 1000))

    @property
    def last_ms(self) -> None:
        """Anybody may write to it at any time."""
        return None

    def before(self, end: Place | None, size_bytes: int) -> Place | None:
        with self.path.open("rb") as file:
            first, size = len(file.readline()), file.seek(0, os.SEEK_END)
            offset = size if end is None else min(end.offset, size)
            if offset <= first:
                return None
            offset = line_start(file, max(first, offset - size_bytes))
        return Place(offset=offset, floor_ms=self.created_ms)

    def since(self, time_ms: int) -> Place:
        with self.path.open("rb") as file:
            first = len(file.readline())
            offset = near_line(file, lambda line: _time_ms(line) < time_ms, first)
        return Place(offset=offset, floor_ms=self.created_ms)

    def append(self, events: Sequence[tuple[int, str]]) -> None:
        """Milliseconds and message of each. Durable; those of one call stay together.

        None is kept as earlier than the one before it: a time is looked for by halves.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            durable.drop_torn_line(descriptor)
            floor = self._last_time_ms(descriptor)
            lines = [json.dumps((max(floor, time_ms), text)) + "\n" for time_ms, text in events]
            durable.write_lines(descriptor, "".join(lines).encode(), self.path)
        finally:
            os.close(descriptor)

    def _last_time_ms(self, descriptor: int) -> int:
        with open(descriptor, "rb", closefd=False) as file:
            first, size = len(file.readline()), file.seek(0, os.SEEK_END)
            if size <= first:
                return 0
            file.seek(line_start(file, size - 1))
            return _time_ms(file.readline())


class OwnLogs:
    """Names are kept inside of the files: they are too long, and too free, for file names."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def groups(self) -> dict[str, int]:
        """By name, when it was made, in milliseconds; in the order of names."""
        records = map(durable.read_json, self._root.glob(f"*/{_GROUP}"))
        return dict(sorted((each["name"], each["created_ms"]) for each in records if each))

    def make_group(self, name: str) -> None:
        """`FileExistsError` when there is one."""
        folder = self._folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        _make(folder / _GROUP, {"name": name, "created_ms": _now_ms()})

    def has_group(self, name: str) -> bool:
        return (self._folder(name) / _GROUP).exists()

    def remove_group(self, name: str) -> None:
        shutil.rmtree(self._folder(name))

    def streams(self, group: str) -> list[OwnStream]:
        """In the order of names."""
        found = map(_opened, self._folder(group).glob(f"*{_SUFFIX}"))
        return sorted(found, key=lambda stream: stream.name)

    def stream(self, group: str, name: str) -> OwnStream | None:
        path = self._path(group, name)
        return _opened(path) if path.exists() else None

    def make_stream(self, group: str, name: str) -> None:
        """`FileExistsError` when there is one."""
        _make(self._path(group, name), [_now_ms(), name])

    def remove_stream(self, group: str, name: str) -> None:
        self._path(group, name).unlink()

    def _folder(self, group: str) -> Path:
        return self._root / _file_name(group)

    def _path(self, group: str, name: str) -> Path:
        return self._folder(group) / f"{_file_name(name)}{_SUFFIX}"


def _make(path: Path, record: Any) -> None:
    """Whole, by the first of those who make it at once."""
    temporary = path.with_suffix(f".{secrets.token_hex(8)}.part")
    durable.create(temporary, json.dumps(record).encode() + b"\n")
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()


def _time_ms(line: bytes) -> int:
    """Of a line that is on its way: later than all."""
    return int(json.loads(line)[0]) if line.endswith(b"\n") else sys.maxsize


def _opened(path: Path) -> OwnStream:
    with path.open("rb") as file:
        created_ms, name = json.loads(file.readline())
        first = file.readline()
    if first.endswith(b"\n"):  # it may be of before
        created_ms = min(created_ms, json.loads(first)[0])
    return OwnStream(path, name, created_ms)


def _file_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _now_ms() -> int:
    return int(time.time() * 1000)
