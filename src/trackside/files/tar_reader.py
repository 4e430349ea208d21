"""Iterates over the members of a tar archive, each with its headers.

Handles the order of headers and their limits. Nothing here touches the disk: `extract` decides what
a member becomes. Memory and time depend on the limits alone, not on what headers claim.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trackside.files import tar_sparse
from trackside.files.tar_header import (
    BLOCK_BYTES,
    GNU_LONG_GOAL,
    GNU_LONG_NAME,
    GNU_SPARSE,
    PAX,
    PAX_GLOBAL,
    Kind,
    Member,
    decimal,
    is_header,
    parsed,
    pax_records,
    text,
)
from trackside.files.tar_stream import BeyondLimit, DamagedTar, TarStream

METADATA_BYTES = 1 << 20
"""The longest extended header accepted; a real one has a few hundred bytes."""
METADATA_BYTES_IN_ALL = 1 << 28
HEADERS_IN_A_ROW = 16
"""Extended headers before one member. Real ones have two or three."""

_EXTENSIONS = frozenset((GNU_LONG_NAME, GNU_LONG_GOAL, *PAX, PAX_GLOBAL))
_ZEROS = bytes(BLOCK_BYTES)
_SPARSE_PART = ("GNU.sparse.offset", "GNU.sparse.numbytes")


class TarReader:
    def __init__(self, stream: TarStream) -> None:
        self._stream = stream
        self._metadata_left = METADATA_BYTES_IN_ALL
        self._for_all: dict[str, str] = {}
        self._unread = 0
        self.is_damaged = False
        """The archive was read up to a header that is none."""

    def members(self) -> Iterator[Member]:
        """Each in turn. Its content can be read until the next one is requested."""
        block = self._stream.take(BLOCK_BYTES)
        if not block:
            raise DamagedTar("empty file")
        if block != _ZEROS and not is_header(block):
            raise DamagedTar("it does not begin as a tar archive does")
        while block not in (b"", _ZEROS):
            if not is_header(block):
                self.is_damaged = True
                return
            member = self._completed(block)
            self._unread = member.stored_bytes
            yield member
            self._stream.skip(self._unread + -member.stored_bytes % BLOCK_BYTES)
            block = self._stream.take(BLOCK_BYTES)

    def content(self, size: int) -> Iterator[memoryview]:
        """The next bytes of the current member."""
        self._unread -= size
        return self._stream.pieces(size)

    def _completed(self, block: bytes) -> Member:
        """The next member, with the values of the headers before its own."""
        header = parsed(block)
        records = dict(self._for_all)
        sparse_numbers: list[str] = []
        num_extensions = 0
        while header.flag in _EXTENSIONS:
            num_extensions += 1
            if num_extensions > HEADERS_IN_A_ROW:
                raise DamagedTar(f"more than {HEADERS_IN_A_ROW} extended headers in a row")
            self._extend(records, sparse_numbers, header)
            block = self._stream.take(BLOCK_BYTES)
            if not is_header(block):
                raise DamagedTar("an extended header has no member after it")
            header = parsed(block)
        if records:
            header = _amended(header, records)
        if header.flag == GNU_SPARSE:
            size, parts = tar_sparse.of_header(block, self._stream)
            return _with_holes(header, size, parts)
        if header.kind is Kind.FILE and (records or sparse_numbers):
            return self._perhaps_with_holes(header, records, sparse_numbers)
        return header

    def _extend(self, records: dict[str, str], sparse_numbers: list[str], header: Member) -> None:
        data = self._metadata(header)
        if header.flag == GNU_LONG_NAME:
            records["path"] = text(data)
        elif header.flag == GNU_LONG_GOAL:
            records["linkpath"] = text(data)
        elif header.flag == PAX_GLOBAL:
            self._for_all.update(pax_records(data))
            records.update(self._for_all)
        else:
            for key, value in pax_records(data):
                records[key] = value
                if key in _SPARSE_PART:
                    sparse_numbers.append(value)

    def _metadata(self, header: Member) -> bytes:
        size = header.stored_bytes
        if size > METADATA_BYTES:
            raise DamagedTar(f"a header claims {size:,} bytes of metadata")
        self._metadata_left -= size
        if self._metadata_left < 0:
            raise BeyondLimit(f"more than {METADATA_BYTES_IN_ALL:,} bytes of extended headers")
        data = b"".join(self._stream.pieces(size))
        self._stream.skip(-size % BLOCK_BYTES)
        return data

    def _perhaps_with_holes(
        self, header: Member, records: Mapping[str, str], sparse_numbers: Sequence[str]
    ) -> Member:
        if records.get("GNU.sparse.major") == "1":
            num_bytes, parts = tar_sparse.of_content(self._stream)
            shorter = replace(header, stored_bytes=header.stored_bytes - num_bytes)
            return _with_holes(shorter, decimal(records.get("GNU.sparse.realsize", "")), parts)
        listed = tar_sparse.of_records(records, sparse_numbers)
        if listed is None:
            return header
        return _with_holes(header, decimal(records.get("GNU.sparse.size", "")), listed)


def _amended(header: Member, records: Mapping[str, str]) -> Member:
    """The header with the fields of its extended ones, which have no length limits."""
    size = decimal(records["size"]) if records.get("size") else header.size
    name = records.get("GNU.sparse.name") or records.get("path") or header.name
    goal = records.get("linkpath") or header.goal
    if "\0" in name or "\0" in goal:
        raise DamagedTar("an extended header has a name with a zero byte")
    return replace(
        header,
        name=name,
        goal=goal,
        size=size,
        stored_bytes=size if header.has_content else 0,
        mtime=_moment(records["mtime"]) if records.get("mtime") else header.mtime,
    )


def _with_holes(header: Member, size: int, parts: tar_sparse.Parts) -> Member:
    tar_sparse.check(parts, size=size, stored_bytes=header.stored_bytes)
    return replace(header, size=size, parts=parts)


def _moment(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise DamagedTar(f"an extended header has {digits[:20]!r} as a time") from None
