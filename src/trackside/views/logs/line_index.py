"""Which line is where in a log: how many newlines come before every block of it.

Built at memory speed, extended while a log grows; a gigabyte needs 256 KB.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

STRIDE = 1 << 16
"""The least size of a block, but for the last."""

Read = Callable[[int, int], bytes]
"""The bytes of the log between two offsets."""


def _from_zero() -> "array[int]":
    return array("q", [0])


@dataclass(slots=True)
class LineIndex:
    """Lines are numbered from 1 for people; here `start` of line 0 is the log's first byte."""

    size: int = 0
    newlines: int = 0
    ends_line: bool = True
    """Whether the last byte is a newline, or there is none."""
    offsets: "array[int]" = field(default_factory=_from_zero)
    """Where each block begins."""
    before: "array[int]" = field(default_factory=_from_zero)
    """How many newlines come before it."""

    @property
    def num_lines(self) -> int:
        """With the last one that has not ended."""
        return self.newlines + (not self.ends_line)

    def add(self, size: int, newlines: int, *, ends_line: bool) -> None:
        """What follows: so many bytes, with so many newlines."""
        if not size:
            return
        self.size += size
        self.newlines += newlines
        self.ends_line = ends_line
        if self.size - self.offsets[-1] >= STRIDE:
            self.offsets.append(self.size)
            self.before.append(self.newlines)

    def start(self, number: int, read: Read) -> int:
        """The offset of the first byte of this line, counted from 0; at most the log's size."""
        if number <= 0:
            return 0
        if number > self.newlines:
            return self.size
        block = bisect_left(self.before, number) - 1
        begin = self.offsets[block]
        data = read(begin, self._end(block))
        at = -1
        for _ in range(number - self.before[block]):
            at = data.find(b"\n", at + 1)
            if at < 0:
                return self.size  # the log was replaced meanwhile
        return begin + at + 1

    def line_at(self, offset: int, read: Read) -> int:
        """The line, counted from 0, that has the byte at this offset."""
        offset = max(0, min(offset, self.size))
        block = bisect_right(self.offsets, offset) - 1
        return self.before[block] + read(self.offsets[block], offset).count(b"\n")

    def _end(self, block: int) -> int:
        return self.offsets[block + 1] if block + 1 < len(self.offsets) else self.size
