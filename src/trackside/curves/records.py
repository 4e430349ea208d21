"""TFRecord framing: length, its checksum, content, its checksum; all little-endian.

`wire.py` interprets the content.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache

from trackside.curves import native

HEADER_BYTES, FOOTER_BYTES = 12, 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, bits reversed."""
MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes) -> int:
    if native.library is not None:
        return int(native.library.trackside_crc32c(data, len(data)))
    return _crc_by_table(data)


def masked(crc: int) -> int:
    """As stored: a checksum of data that contains checksums would be weak otherwise."""
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def frame(content: bytes) -> bytes:
    return header(len(content)) + content + _CHECKSUM.pack(masked(crc32c(content)))


@lru_cache(maxsize=4096)
def header(length: int) -> bytes:
    """Cached, because a writer's records have few lengths."""
    packed = _LENGTH.pack(length)
    return packed + _CHECKSUM.pack(masked(crc32c(packed)))


def length_at(data: bytes, at: int = 0) -> int | None:
    """The content's length from the header there; None if it is not a header."""
    head = data[at : at + HEADER_BYTES]
    if len(head) < HEADER_BYTES:
        return None
    length: int = _LENGTH.unpack_from(head)[0]
    return length if head == header(length) else None


def contents(data: bytes, at: int = 0) -> Iterator[tuple[int, int]]:
    """Start and end of each complete record's content from an offset on, by the headers alone.

    Ends at the first record that is partial or has an invalid header.
    """
    size = len(data)
    unpack = _HEADER.unpack_from
    valid: dict[int, int] = {}
    while size - at >= FRAME_BYTES:
        length, checksum = unpack(data, at)
        if valid.get(length) != checksum:
            if length_at(data, at) is None:
                return
            valid[length] = checksum
        end = at + HEADER_BYTES + length
        if end + FOOTER_BYTES > size:
            return
        yield at + HEADER_BYTES, end
        at = end + FOOTER_BYTES


def is_valid(data: bytes, start: int, end: int) -> bool:
    """Whether the content's checksum, which follows it, is right."""
    (stored,) = _CHECKSUM.unpack_from(data, end)
    return bool(stored == masked(crc32c(data[start:end])))


def next_header(data: bytes, at: int) -> int | None:
    """Where the next valid header starts: how a reader skips damage."""
    for position in range(at, len(data) - HEADER_BYTES + 1):
        if length_at(data, position) is not None:
            return position
    return None


def _make_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


TABLE = _make_table()


def _crc_by_table(data: bytes) -> int:
    crc, table = 0xFFFFFFFF, TABLE
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF
