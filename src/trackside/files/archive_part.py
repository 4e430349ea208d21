"""One host's part of an archive that a lead on another machine merges from all hosts' parts.

A part is a plain tar of the host's folder, and a listing: what the merge needs to know of each
member, and where in the tar its content is. The lead reads it piece by piece.
"""

import json
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from trackside.errors import DamagedTransfer
from trackside.files.archive import END, SMALL_FILE_BYTES, Frame, Member, Source, Warn
from trackside.files.deflate import BLOCK_BYTES, Piece
from trackside.files.json_record import DamagedRecord, parsed
from trackside.quick_dataclass import dataclass

_LEFT_OUT = -1
_SKIP_BYTES = 1 << 20
"""Instead of a new request, up to so many bytes that are not wanted are read."""
_IDLE_SECONDS = 20.0
"""A store may end a connection that was not read from for so long."""
_TAR_BYTES = 512


@dataclass(frozen=True, slots=True)
class PartMember:
    below: str
    """Its path in the host's folder."""
    kind: int
    """The file type bits of its mode."""
    mode: int = 0
    mtime: int = 0
    size: int = 0
    goal: str = ""
    """Of a link."""
    offset: int = _LEFT_OUT
    """Of its content in the tar. One that is left out still competes with others for its name, as
    it does where all hosts are on one machine."""
    file: str = ""
    """Which member has the content of this file, or of what this link leads to in the end."""

    def to_json(self) -> str:
        row = (self.below, self.kind, self.mode, self.mtime, self.size)
        return json.dumps([*row, self.goal, self.offset, self.file])

    @classmethod
    def parse(cls, line: bytes) -> "PartMember":
        row = parsed(line)
        if not isinstance(row, list) or [type(each) for each in row[:8]] != _ROW:
            raise DamagedRecord("a line of the listing is no member")
        if row[1] not in _KINDS:
            raise DamagedRecord(f"a member is of kind {row[1]!r}")
        return cls(*row[:8])


_ROW = [str, int, int, int, int, str, int, str]
_KINDS = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)


class PartWriter:
    """Packs a host's folder. `members` is complete once `chunks` has ended."""

    def __init__(self, source: Source, warn: Warn) -> None:
        self._source = source
        self._warn = warn
        self.members: list[PartMember] = []

    def chunks(self) -> Iterator[bytes]:
        """The tar's bytes. May be called again for another try."""
        self.members = []
        offset = 0
        for member in self._source.members(self._warn):
            frame = self._source.frame(member, self._warn)
            file = ""
            if member.kind != stat.S_IFDIR:
                file = self._source.file_below(member, self._warn)
            if frame is None:
                self.members.append(PartMember(member.below, member.kind, file=file))
                continue
            with closing(frame):
                header = frame.header(member.name).data
                offset += len(header)
                row = (frame.kind, frame.mode, frame.mtime, frame.size, frame.goal, offset)
                self.members.append(PartMember(member.below, *row, file))
                yield header
                for piece in frame.content:
                    offset += len(piece.data)
                    yield piece.data
        yield END.data


class PartSource:
    """A host's folder, as its part has it; a source of `archive.pack`."""

    def __init__(
        self,
        host: str,
        members: Iterable[PartMember],
        read: Callable[[int], Iterator[bytes]],
        *,
        has_entries: bool,
    ) -> None:
        """`read` gives the tar's bytes from an offset on."""
        self.host = host
        self._members = {member.below: member for member in members}
        self._tar = _Tar(read)
        self._has_entries = has_entries

    def members(self, warn: Warn) -> Iterator[Member]:
        for each in self._members.values():
            yield Member(each.below, Path(self.host, each.below), each.kind, self, each.below)

    def frame(self, member: Member, warn: Warn) -> Frame | None:
        found = self._members[member.below]
        if found.offset == _LEFT_OUT:
            return None
        content = self._content(found) if found.kind == stat.S_IFREG else ()
        return Frame(found.kind, found.mode, found.mtime, found.size, found.goal, content)

    def file(self, member: Member, warn: Warn) -> Iterator[bytes] | None:
        found = self._members.get(self._members[member.below].file)
        if found is None or found.offset == _LEFT_OUT:
            return None
        return self._tar.read(found.offset, found.size)

    def has_entries(self) -> bool:
        return self._has_entries

    def _content(self, member: PartMember) -> Iterator[Piece]:
        """In the same pieces as from a disk: they decide how the archive is compressed."""
        careful = member.size <= SMALL_FILE_BYTES
        for data in _in_blocks(self._tar.read(member.offset, member.size)):
            yield Piece(data, careful)
        yield Piece(bytes(-member.size % _TAR_BYTES), careful=True)


class _Tar:
    """Reads ranges of a tar, mostly ascending ones, over as few streams as possible."""

    def __init__(self, read: Callable[[int], Iterator[bytes]]) -> None:
        self._read = read
        self._stream: Iterator[bytes] = iter(())
        self._held = memoryview(b"")
        self._at = 0
        self._used = -_IDLE_SECONDS

    def read(self, start: int, size: int) -> Iterator[bytes]:
        if not size:
            return
        self._seek(start)
        while size:
            data = self._next(size)
            if not data:
                raise DamagedTransfer("The tar of a host's part is shorter than its listing says.")
            size -= len(data)
            yield bytes(data)

    def _seek(self, start: int) -> None:
        is_idle = time.monotonic() - self._used > _IDLE_SECONDS
        if is_idle or not 0 <= start - self._at <= _SKIP_BYTES:
            self._close()
            self._stream, self._held, self._at = self._read(start), memoryview(b""), start
        while self._at < start and self._next(start - self._at):
            pass

    def _next(self, most: int) -> memoryview:
        if not self._held:
            self._held = memoryview(next(self._stream, b""))
        data, self._held = self._held[:most], self._held[most:]
        self._at += len(data)
        self._used = time.monotonic()
        return data

    def _close(self) -> None:
        if isinstance(self._stream, Generator):
            self._stream.close()


def _in_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= BLOCK_BYTES:
            yield bytes(memoryview(waiting)[:BLOCK_BYTES])
            del waiting[:BLOCK_BYTES]
    if waiting:
        yield bytes(waiting)
