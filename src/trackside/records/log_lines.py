"""The format of a job's log. While it runs: raw bytes, with a second file that has the time of each
part. In object storage: text lines with time stamps, in chunks named by their offset in the raw
log.

`supervisor/logs.py` writes both; `jobs/logs.py` reads both.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from trackside.quick_dataclass import dataclass

STAMP_LENGTH = len("2026-11-15T22:50:46.123Z ")
_MARK = re.compile(rb"(\d+) (\d+\.\d{3})")
_NEAR_BYTES = 4096
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TimeMark:
    """All bytes before `size` had been written at `time`."""

    size: int
    time: float


def read_marks(path: Path) -> list[TimeMark]:
    """The marks written so far, without a partial last one."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        return []


def last_mark(path: Path, is_wanted: Callable[[TimeMark], bool]) -> TimeMark | None:
    """The last of the leading marks that match, without reading all of them."""
    try:
        with path.open("rb") as file:
            file.seek(near_mark(file, is_wanted))
            near = _parsed(file.read(2 * _NEAR_BYTES))
    except FileNotFoundError:
        return None
    return next((mark for mark in reversed(near) if is_wanted(mark)), None)


def near_mark(file: BinaryIO, is_before: Callable[[TimeMark], bool]) -> int:
    """Where to continue reading marks, shortly before the first that is not `is_before`: a job of
    weeks has millions. Sizes only grow, and so do times unless an old supervisor's clock was set.
    """
    return near_line(file, lambda line: any(map(is_before, _parsed(line))))


def near_line(file: BinaryIO, is_before: Callable[[bytes], bool], start: int = 0) -> int:
    """The start of a line, shortly before the first that is not `is_before`; found by bisection."""
    low, high = start, file.seek(0, os.SEEK_END)
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the end of the line that is there
        following = file.tell()
        if is_before(file.readline()):
            low = following
        else:
            high = middle
    return low


def line_start(file: BinaryIO, end: int) -> int:
    """The start of the line with the byte before this one."""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        file.seek(start)
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0


def _parsed(data: bytes) -> list[TimeMark]:
    return [
        TimeMark(int(found[1]), float(found[2]))
        for line in data[: data.rfind(b"\n") + 1].splitlines()
        if (found := _MARK.fullmatch(line))
    ]


def time_of(offset: int, marks: Sequence[TimeMark], default: float) -> float:
    """When the byte at this offset was first seen."""
    index = bisect_right(marks, offset, key=lambda mark: mark.size)
    return marks[index].time if index < len(marks) else default


def stamp(time: float) -> bytes:
    moment = datetime.fromtimestamp(time, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.").encode() + b"%03dZ " % (moment.microsecond // 1000)


def parse_stamp(text: bytes) -> float:
    moment = datetime.strptime(text[: STAMP_LENGTH - 2].decode(), "%Y-%m-%dT%H:%M:%S.%f")
    return moment.replace(tzinfo=UTC).timestamp()


def encode(raw: bytes, offset: int, marks: Sequence[TimeMark], default: float) -> bytes:
    """A chunk: each line of `raw`, which starts at `offset` of the log, behind its time stamp."""
    lines = []
    for line in split_lines(raw):
        lines.append(stamp(time_of(offset, marks, default)) + line)
        offset += len(line)
    return b"".join(lines)


def decode(chunk: bytes) -> Iterator[tuple[float, bytes]]:
    """Time and bytes of each line; a line cut by the chunk's end comes without its newline."""
    for line in split_lines(chunk):
        yield parse_stamp(line), line[STAMP_LENGTH:]


def chunk_name(attempt: int, offset: int) -> str:
    """Sorts by attempt, then by offset; the same part always has the same name."""
    return f"{attempt:04d}-{offset:016d}.log"


def chunk_position(name: str) -> tuple[int, int] | None:
    """Attempt and offset of a chunk, by its name; None for another file."""
    attempt, _, offset = name.removesuffix(".log").partition("-")
    return (int(attempt), int(offset)) if attempt.isdigit() and offset.isdigit() else None


def split_lines(data: bytes) -> list[bytes]:
    """Split at newlines only: carriage returns are part of progress bars."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
