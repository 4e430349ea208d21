"""Log groups and streams that programs create themselves: a folder and a file each, in the server's
folder. Written line by line, read like the logs of jobs.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.api.log_streams import Event, Position
from trackside.files import damaged_files, durable
from trackside.files.json_record import MOMENT_END, DamagedRecord, parsed
from trackside.jobs.log_prefilter import MayHold
from trackside.records.log_lines import line_start, near_line

_GROUP = "group.json"
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class ClientStream:
    path: Path
    name: str
    created_ms: int
    owner: str | None = None
    """Its owner; None for those from before owners were recorded."""

    def events(
        self, start: Position | None = None, may_hold: MayHold | None = None
    ) -> Iterator[Event]:
        """In the order of arrival; no event has an earlier time than the one before it."""
        start = start or Position(floor_ms=self.created_ms)
        floor = start.floor_ms
        with self.path.open("rb") as file:
            offset = start.offset or len(file.readline())  # past who it is
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                position = Position(start.attempt, offset, floor)
                offset += len(line)
                try:
                    time_ms, message = _event(line)
                except DamagedRecord as error:
                    damaged_files.say_once(
                        self.path, f"an event of {self.name!r} is skipped: {error}"
                    )
                    continue
                floor = max(floor, time_ms)
                yield Event(floor, message, position, Position(start.attempt, offset, floor))

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """When its first event was, and about when its last one was."""
        first = next(self.events(), None)
        return None if first is None else (first.time_ms, int(self.path.stat().st_mtime * 1000))

    @property
    def last_ms(self) -> None:
        """Any client may write to it at any time."""
        return None

    def before(self, end: Position | None, size_bytes: int) -> Position | None:
        with self.path.open("rb") as file:
            first, size = len(file.readline()), file.seek(0, os.SEEK_END)
            offset = size if end is None else min(end.offset, size)
            if offset <= first:
                return None
            offset = line_start(file, max(first, offset - size_bytes))
        return Position(offset=offset, floor_ms=self.created_ms)

    def since(self, time_ms: int) -> Position:
        with self.path.open("rb") as file:
            first = len(file.readline())
            offset = near_line(file, lambda line: _time_ms(line) < time_ms, first)
        return Position(offset=offset, floor_ms=self.created_ms)

    def append(self, events: Sequence[tuple[int, str]]) -> None:
        """Milliseconds and message of each. Durable; the events of one call stay together.

        No event is stored with an earlier time than the one before: times are found by bisection.
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


class ClientLogs:
    """Names are stored inside the files: they are too long, and allow too much, for file names."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def groups(self) -> dict[str, int]:
        """By name, its creation time in milliseconds; ordered by name."""
        groups = [damaged_files.read(_Group, path) for path in self._root.glob(f"*/{_GROUP}")]
        return dict(sorted((each.name, each.created_ms) for each in groups if each is not None))

    def make_group(self, name: str, owner: str) -> None:
        """`FileExistsError` if it exists."""
        folder = self._folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        _make(folder / _GROUP, {"name": name, "created_ms": _now_ms(), "owner": owner})

    def owners(self, group: str) -> set[str | None]:
        """Of the group and of all its streams; None for those from before there were owners."""
        record = durable.read_json(self._folder(group) / _GROUP) or {}
        return {record.get("owner"), *(stream.owner for stream in self.streams(group))}

    def has_group(self, name: str) -> bool:
        return (self._folder(name) / _GROUP).exists()

    def remove_group(self, name: str) -> None:
        shutil.rmtree(self._folder(name))

    def streams(self, group: str) -> list[ClientStream]:
        """In the order of names."""
        found = [_opened(path) for path in self._folder(group).glob(f"*{_SUFFIX}")]
        known = [stream for stream in found if stream is not None]
        return sorted(known, key=lambda stream: stream.name)

    def stream(self, group: str, name: str) -> ClientStream | None:
        path = self._path(group, name)
        return _opened(path) if path.exists() else None

    def make_stream(self, group: str, name: str, owner: str) -> None:
        """`FileExistsError` if it exists."""
        _make(self._path(group, name), [_now_ms(), name, owner])

    def remove_stream(self, group: str, name: str) -> None:
        self._path(group, name).unlink()

    def _folder(self, group: str) -> Path:
        return self._root / _file_name(group)

    def _path(self, group: str, name: str) -> Path:
        return self._folder(group) / f"{_file_name(name)}{_SUFFIX}"


def _make(path: Path, record: Any) -> None:
    """Atomic: of concurrent creators the first wins."""
    temporary = path.with_suffix(f".{secrets.token_hex(8)}.part")
    durable.create(temporary, json.dumps(record).encode() + b"\n")
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()


def _time_ms(line: bytes) -> int:
    """The time of an unfinished or damaged line: later than all others."""
    try:
        return _event(line)[0] if line.endswith(b"\n") else sys.maxsize
    except DamagedRecord:
        return sys.maxsize


def _opened(path: Path) -> ClientStream | None:
    """None when its first line, which names it, is damaged."""
    with path.open("rb") as file:
        try:
            created_ms, name, owner = _made(file.readline())
        except DamagedRecord as error:
            damaged_files.say_once(path, f"{error}; it is skipped")
            return None
        first = file.readline()
    if first.endswith(b"\n"):  # it may be of before
        with suppress(DamagedRecord):
            created_ms = min(created_ms, _event(first)[0])
    return ClientStream(path, name, created_ms, owner)


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    created_ms: int


def _made(line: bytes) -> tuple[int, str, str | None]:
    """When a stream was made, its name and its owner, if that was recorded."""
    match parsed(line):
        case [int(time_ms), str(name)] if 0 <= time_ms < MOMENT_END * 1000:
            return time_ms, name, None
        case [int(time_ms), str(name), str(owner)] if 0 <= time_ms < MOMENT_END * 1000:
            return time_ms, name, owner
    raise DamagedRecord("a first line without its time of creation")


def _event(line: bytes) -> tuple[int, str]:
    """Milliseconds and text."""
    match parsed(line):
        case [int(time_ms), str(text)] if 0 <= time_ms < MOMENT_END * 1000:
            return time_ms, text
    raise DamagedRecord("a line that is not an event")


def _file_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _now_ms() -> int:
    return int(time.time() * 1000)
