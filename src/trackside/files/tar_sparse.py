"""Sparse files, in each format that GNU tar has ever written: where the content goes.

A map is a tuple of (offset, length), in order. `extract` checks the limits.
"""

from collections.abc import Iterator, Mapping, Sequence

from trackside.files.tar_header import BLOCK_BYTES, decimal, number
from trackside.files.tar_stream import DamagedTar, TarStream

MOST_PARTS = 1 << 16

_NUMBER_BYTES = 12
_HEADER_PARTS = slice(386, 482)
_HEADER_HAS_MORE = 482
_HEADER_SIZE = slice(483, 495)
_BLOCK_PARTS = slice(0, 504)
_BLOCK_HAS_MORE = 504

Parts = tuple[tuple[int, int], ...]


def of_header(block: bytes, stream: TarStream) -> tuple[int, Parts]:
    """GNU's own format: the file's size, and parts in the header and in blocks that follow it."""
    numbers = list(_numbers(block[_HEADER_PARTS]))
    has_more = block[_HEADER_HAS_MORE]
    while has_more:
        more = stream.take(BLOCK_BYTES)
        if len(more) < BLOCK_BYTES:
            raise DamagedTar("it ends inside a header")
        numbers += _numbers(more[_BLOCK_PARTS])
        has_more = more[_BLOCK_HAS_MORE]
        _check_count(len(numbers) // 2)
    return number(block[_HEADER_SIZE]), _paired(numbers)


def of_records(records: Mapping[str, str], repeated: Sequence[str]) -> Parts | None:
    """Formats 0.0 and 0.1 of pax: parts are in the extended header, if any."""
    if repeated:
        return _paired([decimal(each) for each in repeated])
    if listed := records.get("GNU.sparse.map"):
        return _paired([decimal(each) for each in listed.split(",")])
    return None


def of_content(stream: TarStream) -> tuple[int, Parts]:
    """Format 1.0 of pax: bytes taken before the content begins, and the parts they list."""
    lines = _lines(stream)
    _, count = next(lines)
    _check_count(count)
    numbers: list[int] = []
    num_bytes = BLOCK_BYTES
    while len(numbers) < 2 * count:
        num_bytes, value = next(lines)
        numbers.append(value)
    return num_bytes, _paired(numbers)


def check(parts: Parts, *, size: int, stored_bytes: int) -> None:
    """The parts are in order, inside the file, and cover everything that is stored."""
    ends = [0, *(offset + length for offset, length in parts)]
    in_order = all(end <= offset for end, (offset, _) in zip(ends, parts, strict=False))
    if not in_order or any(length < 0 for _, length in parts) or ends[-1] > size:
        raise DamagedTar("a file with holes has parts that overlap or lie beyond its end")
    if sum(length for _, length in parts) != stored_bytes:
        raise DamagedTar("a file with holes has another size than its parts")


def _numbers(field: bytes) -> Iterator[int]:
    for start in range(0, len(field), _NUMBER_BYTES):
        one = field[start : start + _NUMBER_BYTES]
        if not one.strip(b"\0"):
            return
        yield number(one)


def _lines(stream: TarStream) -> Iterator[tuple[int, int]]:
    """Decimal numbers, one per line, from as many blocks as needed; with the bytes taken so far."""
    num_bytes = 0
    partial = b""
    while block := stream.take(BLOCK_BYTES):
        num_bytes += BLOCK_BYTES
        *complete, partial = (partial + block).split(b"\n")
        for line in complete:
            yield num_bytes, decimal(line.decode("ascii", "replace"))
        if len(partial) > BLOCK_BYTES:
            break
    raise DamagedTar("a file with holes lacks the end of its list of parts")


def _paired(numbers: Sequence[int]) -> Parts:
    _check_count(len(numbers) // 2)
    if len(numbers) % 2:
        raise DamagedTar("a file with holes has a part without a length")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _check_count(count: int) -> None:
    if count > MOST_PARTS:
        raise DamagedTar(f"a file with holes has more than {MOST_PARTS:,} parts")
