"""Log lines that may contain a search text. The rest is skipped in blocks, a hundred times faster
than line by line.

`MayHold` is called for blocks of complete lines and for single ones. If false, none of the lines
match; if true, some may.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO

from trackside.records.log_lines import STAMP_LENGTH, parse_stamp, split_lines

MayHold = Callable[[bytes], bool]

_BLOCK_BYTES = 1 << 20


def skim_file(
    file: BinaryIO, start: int, end: int, may_hold: MayHold, part_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The number of bytes skipped, then a line or a part of a long one; an empty one after each
    block that ends with skipped bytes. A final part without a newline is left to the caller.
    """
    while block := _whole_lines(file, start, end):
        start += len(block)
        if not may_hold(block):
            yield len(block), b""
            continue
        passed = 0
        for part in _parts(block, part_bytes):
            if may_hold(part):
                yield passed, part
                passed = 0
            else:
                passed += len(part)
        if passed:
            yield passed, b""


def skim_chunk(chunk: bytes, may_hold: MayHold) -> Iterator[tuple[int, float, bytes]]:
    """The same for a stored chunk of complete lines, with the time of each; bytes as in the log."""
    lines = split_lines(chunk)
    if not may_hold(chunk):
        yield len(chunk) - len(lines) * STAMP_LENGTH, parse_stamp(lines[-1]), b""
        return
    passed = 0
    for line in lines:
        data = line[STAMP_LENGTH:]
        if may_hold(data):
            yield passed, parse_stamp(line), data
            passed = 0
        else:
            passed += len(data)
    if passed:
        yield passed, parse_stamp(lines[-1]), b""


def _whole_lines(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    data = file.read(max(0, min(_BLOCK_BYTES, end - start)))
    return data[: data.rfind(b"\n") + 1]


def _parts(block: bytes, most_bytes: int) -> Iterator[bytes]:
    for line in split_lines(block):
        if len(line) <= most_bytes:
            yield line
        else:
            for start in range(0, len(line), most_bytes):
                yield line[start : start + most_bytes]
