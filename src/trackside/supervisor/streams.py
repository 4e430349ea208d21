"""The content of a channel's pipe: objects one after the other, unpacked and framed.

A few parts are prefetched, so that memory stays small and the reader seldom waits.
"""

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from trackside.errors import InputError
from trackside.supervisor.channel_objects import ChannelObject

PART_BYTES = 4 << 20
AHEAD = 4
"""Parts in memory, and concurrent requests."""
UNPACKED_BYTES = 1 << 20
RECORD_MAGIC = 0xCED7230A

Item = ChannelObject | bytes
"""An object of a store, or a value from the manifest itself."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def stream(items: Iterable[Item], *, unzip: bool, records: bool) -> Iterator[bytes]:
    """The bytes of one epoch. `unzip` unpacks each object, `records` makes a RecordIO record of
    each item: magic, length, data, padded to four bytes."""
    pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="trackside-fetch")
    try:
        parts = (part for item in _ahead(pool, _sized, items) for part in _parts(item))
        for part, data in _ahead(pool, _fetched, parts):
            if part.start == 0:
                decode = _decoder(part.item, unzip)
                size = _decoded_size(part.item, unzip) if records else 0
                if records:
                    yield _record_header(part.item, size)
            yield from decode(data, part.is_last)
            if records and part.is_last:
                yield bytes(-size % 4)
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Part:
    item: Item
    start: int
    end: int
    is_last: bool


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[_Given], _Made], values: Iterable[_Given]
) -> Iterator[_Made]:
    """`map` in order, with a few results prefetched."""
    waiting: deque[Future[_Made]] = deque()
    for value in values:
        waiting.append(pool.submit(function, value))
        if len(waiting) >= AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _sized(item: Item) -> Item:
    return item if isinstance(item, bytes) else item.sized()


def _size(item: Item) -> int:
    return len(item) if isinstance(item, bytes) else item.size_bytes


def _parts(item: Item) -> Iterator[_Part]:
    size = _size(item)
    for start in range(0, max(size, 1), PART_BYTES):
        end = min(start + PART_BYTES, size)
        yield _Part(item, start, end, is_last=end == size)


def _fetched(part: _Part) -> tuple[_Part, bytes]:
    if isinstance(part.item, bytes):
        return part, part.item[part.start : part.end]
    return part, part.item.read(part.start, part.end)


Decode = Callable[[bytes, bool], Iterable[bytes]]
"""Takes a part and whether it is the item's last."""


def _decoder(item: Item, unzip: bool) -> Decode:
    if unzip and isinstance(item, ChannelObject):
        return _Unpacker(item.uri).feed
    return lambda data, is_last: (data,)


def _decoded_size(item: Item, unzip: bool) -> int:
    """A record has its length before its data, so compressed data is read once to count it."""
    if not unzip or isinstance(item, bytes):
        return _size(item)
    decode = _decoder(item, unzip)
    return sum(
        len(data) for part in _parts(item) for data in decode(_fetched(part)[1], part.is_last)
    )


class _Unpacker:
    """gzip, also of several members, in pieces of bounded size."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._inflate = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes, is_last: bool) -> Iterator[bytes]:
        try:
            while data:
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(wbits=31)
                yield self._inflate.decompress(data, UNPACKED_BYTES)
                data = self._inflate.unconsumed_tail or self._inflate.unused_data
            if is_last and not self._inflate.eof:
                yield self._inflate.flush()  # the last match may have filled the piece before
        except zlib.error as error:
            raise InputError(
                f"{self._uri!r} is not valid gzip data ({error}), though the channel's "
                "CompressionType is Gzip. Set it to None, or compress the object."
            ) from error
        if is_last and not self._inflate.eof:
            raise InputError(f"{self._uri!r} ends in the middle of its gzip data. Store it again.")


def _record_header(item: Item, size: int) -> bytes:
    if size >> 32:
        named = item.uri if isinstance(item, ChannelObject) else "a value"
        raise InputError(
            f"{named!r} has {size:,} bytes, more than a RecordIO record can hold (4 GiB). "
            "Split it, or set RecordWrapperType to None."
        )
    return struct.pack("<II", RECORD_MAGIC, size)
