"""Event files on their way out while the script writes them: each new record goes up once.

How chunks are named and joined is `curves/chunks.py`'s; when to look, and what to do when the
store does not answer, is the `Syncer`'s.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trackside.curves.chunks import Chunk, Piece, Source, by_source
from trackside.curves.event_locations import list_event_files
from trackside.curves.records import FOOTER_BYTES, HEADER_BYTES, length_at
from trackside.errors import ObjectNotFound
from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.records.event_names import is_event_file
from trackside.records.hosts import SyncState
from trackside.storage.locate import Location
from trackside.supervisor.folder_scan import Look, scan

READ_BYTES = 1 << 20
WHOLE_BYTES = 8 << 20
"""Up to here one request; larger chunks are streamed in parts."""
TAIL_BYTES = 64
"""So many of the last bytes sent are compared, to see a file that was begun anew."""


@dataclass(slots=True)
class _Sent:
    """How far one file has gone up."""

    source: Source
    inode: int
    offset: int = 0
    tail: bytes = b""
    tried: tuple[str, int] | None = None
    """Key and end of a chunk that was put, with no answer yet."""


class EventSync:
    """One folder's event files. Not thread-safe: its `Syncer` owns it."""

    def __init__(
        self,
        name: str,
        source: Path | ScriptFolder,
        to: Location,
        host: str,
        *,
        fill: Callable[..., None] | None = None,
        look: Callable[[], Mapping[str, Look]] | None = None,
        opened: Callable[[str], int] | None = None,
    ) -> None:
        self.name = name
        self.source = ScriptFolder.of(source)
        self.state = SyncState(to=to.uri, last=time.time())
        self.synced_at = self.alive_at = time.monotonic()
        self._to = to
        self._host = host
        self._fill = fill
        """Called before each look, with `last`, to write what is to be sent."""
        self._look = look or self._all
        """Finds the event files that are to be sent."""
        self._open = opened or self.source.open
        self._is_by_process = opened is not None
        self._sent: dict[str, _Sent] = {}
        self._there: dict[Source, list[Piece]] | None = None
        """What an earlier supervisor left there, by the file it came from."""
        self._used: set[Source] = set()
        self._last_sent = 0

    @property
    def is_filled(self) -> bool:
        """We write its files ourselves."""
        return self._fill is not None

    @property
    def has_files(self) -> bool:
        return bool(self._sent)

    @property
    def is_unused(self) -> bool:
        """Its files are no folder's, and there are none: nobody need hear of it."""
        return self._is_by_process and not (self._sent or self.state.error)

    def tick(self, *, last: bool = False) -> None:
        """Send the whole records that are new (`last`: all bytes). Raises what the store raises."""
        if self._fill is not None:
            self._fill(last=last)
        if self._there is None:
            self._take_stock()
        began, looked = time.time(), time.monotonic()
        looks = self._look()
        self._follow_renames(looks)
        waiting = {path: look for path, look in looks.items() if not self._is_sent(path, look)}
        self._count(waiting)
        for path in sorted(waiting, key=lambda path: waiting[path].mtime_ns):
            try:
                self._send(path, waiting[path].inode, last=last)
            except (FileNotFoundError, NotADirectoryError, NoPlainFile):
                continue  # deleted since the scan; what had gone up stays
            self._count(waiting)
            self.alive_at = time.monotonic()
        self.state.last, self.synced_at = began, looked

    def _all(self) -> Mapping[str, Look]:
        return {path: look for path, look in scan(self.source, {}) if is_event_file(path)}

    def _is_sent(self, path: str, look: Look) -> bool:
        sent = self._sent.get(path)
        return sent is not None and (sent.inode, sent.offset) == (look.inode, look.size)

    def _follow_renames(self, looks: Mapping[str, Look]) -> None:
        """The same file under a new name goes on under its first one."""
        now_at = {look.inode: path for path, look in looks.items()}
        self._sent = {
            path if _is_at(sent, looks.get(path)) else now_at[sent.inode]: sent
            for path, sent in self._sent.items()
            if sent.inode in now_at
        }

    def _send(self, path: str, inode: int, *, last: bool) -> None:
        with open(self._open(path), "rb") as file:
            sent = self._found(path, inode, file.fileno())
            self._settle(sent, file.fileno())
            size = os.fstat(file.fileno()).st_size
            end = size if last else whole_records_end(file.fileno(), sent.offset, size)
            if end <= sent.offset:
                return
            self._last_sent = max(self._last_sent + 1, time.time_ns() // 1000)
            place = self._to.child(Chunk(sent.source, sent.offset, self._last_sent).path)
            pieces = _bytes(file.fileno(), sent.offset, end)
            is_small = end - sent.offset <= WHOLE_BYTES
            sent.tried = (place.key, end)
            place.store.put(place.key, b"".join(pieces) if is_small else pieces)
            self._note(sent, end, file.fileno())

    def _settle(self, sent: _Sent, descriptor: int) -> None:
        """A put whose reply was lost may have worked: then its bytes are not sent again."""
        if sent.tried is None:
            return
        key, end = sent.tried
        try:
            self._to.store.stat(key)
        except ObjectNotFound:
            sent.tried = None
        else:
            self._note(sent, end, descriptor)

    def _note(self, sent: _Sent, end: int, descriptor: int) -> None:
        self.state.uploaded_bytes += end - sent.offset
        start = max(0, end - TAIL_BYTES)
        sent.tail = os.pread(descriptor, end - start, start)
        sent.offset = end
        sent.tried = None

    def _found(self, path: str, inode: int, descriptor: int) -> _Sent:
        """How far this file is; a new beginning when it is not the one that was sent."""
        sent = self._sent.get(path)
        if sent is None:
            sent = self._resumed(path, inode, descriptor)
        elif sent.inode != inode or not _continues(sent, descriptor):
            sent = _Sent(self._new_source(path), inode)
        self._used.add(sent.source)
        self._sent[path] = sent
        return sent

    def _resumed(self, path: str, inode: int, descriptor: int) -> _Sent:
        """Where an earlier supervisor stopped, if what it sent is what the file still holds."""
        assert self._there is not None
        folder, _, name = path.rpartition("/")
        for source in sorted(self._there, reverse=True):
            if (source.folder, source.name, source.host) != (folder, name, self._host):
                continue
            piece = self._there.pop(source)[-1]
            start = max(0, piece.size - TAIL_BYTES)
            tail = self._to.store.get(piece.key, start, piece.size)
            sent = _Sent(source, inode, piece.end, tail)
            return sent if _continues(sent, descriptor) else _Sent(self._new_source(path), inode)
        return _Sent(self._new_source(path), inode)

    def _new_source(self, path: str) -> Source:
        """The next generation of this name."""
        folder, _, name = path.rpartition("/")
        used = [
            source.generation
            for source in self._used
            if (source.folder, source.name, source.host) == (folder, name, self._host)
        ]
        return Source(folder, name, self._host, max(used, default=-1) + 1)

    def _take_stock(self) -> None:
        there = by_source(list_event_files(self._to))
        newest = (piece.chunk.sent for pieces in there.values() for piece in pieces)
        self._last_sent = max(newest, default=0)
        self._there = {source: pieces for source, pieces in there.items() if source.host}
        self._used = set(self._there)

    def _count(self, waiting: dict[str, Look]) -> None:
        left = [
            look.size - (self._sent[path].offset if path in self._sent else 0)
            for path, look in waiting.items()
            if not self._is_sent(path, look)
        ]
        self.state.pending_files = len(left)
        self.state.pending_bytes = sum(max(0, size) for size in left)


def whole_records_end(descriptor: int, start: int, size: int) -> int:
    """The end of the last whole record at or after `start`, by the headers alone.

    Stops at bytes that are no record; they go up when the script is over, for readers to judge.
    """
    at = start
    block, block_at = b"", start
    while size - at >= HEADER_BYTES + FOOTER_BYTES:
        if not block_at <= at <= block_at + len(block) - HEADER_BYTES:
            block, block_at = os.pread(descriptor, READ_BYTES, at), at
        length = length_at(block, at - block_at)
        if length is None or at + HEADER_BYTES + length + FOOTER_BYTES > size:
            return at
        at += HEADER_BYTES + length + FOOTER_BYTES
    return at


def _is_at(sent: _Sent, look: Look | None) -> bool:
    return look is not None and look.inode == sent.inode


def _continues(sent: _Sent, descriptor: int) -> bool:
    """Whether the file still ends, up to where it was sent, as it did then."""
    start = sent.offset - len(sent.tail)
    return os.pread(descriptor, len(sent.tail), start) == sent.tail


def _bytes(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = os.pread(descriptor, min(READ_BYTES, end - start), start)
        if not data:
            raise FileNotFoundError("cut off while it was being sent")
        start += len(data)
        yield data
