"""Event files uploaded while the script writes them: each new record is uploaded once.

How chunks are named and joined is `curves/chunks.py`'s; when to scan, and what to do when the
store does not respond, is the `Syncer`'s.
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
from trackside.storage.locate import Location
from trackside.supervisor.folder_scan import FileState, scan
from trackside.supervisor.sync_part import SyncPart, now

READ_BYTES = 1 << 20
WHOLE_BYTES = 8 << 20
"""Up to here one request; larger chunks are streamed in parts."""
TAIL_BYTES = 64
"""So many of the last bytes sent are compared, to notice a file that was recreated."""


@dataclass(slots=True)
class _Sent:
    """How far one file is uploaded."""

    source: Source
    inode: int
    offset: int = 0
    tail: bytes = b""
    tried: tuple[str, int] | None = None
    """Key and end of a chunk that was put, with no response yet."""


class EventSync(SyncPart):
    """One folder's event files."""

    def __init__(
        self,
        name: str,
        source: Path | ScriptFolder,
        to: Location,
        host: str,
        *,
        fill: Callable[..., None] | None = None,
        find: Callable[[], Mapping[str, FileState]] | None = None,
        opened: Callable[[str], int] | None = None,
    ) -> None:
        super().__init__(name, to)
        self.source = ScriptFolder.of(source)
        self._host = host
        self._fill = fill
        """Called before each scan, with `last`, to write what is to be uploaded."""
        self.is_generated = fill is not None
        self._find = find or self._all
        """Finds the event files that are to be uploaded."""
        self._open = opened or self.source.open
        self._is_by_process = opened is not None
        self._sent: dict[str, _Sent] = {}
        self._stored: dict[Source, list[Piece]] | None = None
        """What an earlier supervisor uploaded, by the file it came from."""
        self._used: set[Source] = set()
        self._last_sent = 0

    @property
    def has_files(self) -> bool:
        return bool(self._sent)

    @property
    def is_unused(self) -> bool:
        """It has no folder of its own, and no files were found."""
        return self._is_by_process and not (self._sent or self.state.error)

    def tick(self, *, last: bool = False) -> None:
        """Upload the complete records that are new (`last`: all bytes)."""
        if self._fill is not None:
            self._fill(last=last)
        if self._stored is None:
            self._list_stored()
        started = now()
        found = self._find()
        self._follow_renames(found)
        waiting = {path: file for path, file in found.items() if not self._is_sent(path, file)}
        self._count(waiting)
        for path in sorted(waiting, key=lambda path: waiting[path].mtime_ns):
            try:
                self._send(path, waiting[path].inode, last=last)
            except (FileNotFoundError, NotADirectoryError, NoPlainFile):
                continue  # deleted since the scan; what was uploaded stays
            self._count(waiting)
            self._set_alive()
        self._set_synced(started)

    def _all(self) -> Mapping[str, FileState]:
        return dict(scan(self.source, {}, takes=is_event_file))

    def _is_sent(self, path: str, file: FileState) -> bool:
        sent = self._sent.get(path)
        return sent is not None and (sent.inode, sent.offset) == (file.inode, file.size)

    def _follow_renames(self, found: Mapping[str, FileState]) -> None:
        """The same file under a new name continues under its first one."""
        now_at = {file.inode: path for path, file in found.items()}
        self._sent = {
            path if _is_at(sent, found.get(path)) else now_at[sent.inode]: sent
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
            location = self._to.child(Chunk(sent.source, sent.offset, self._last_sent).path)
            pieces = _bytes(file.fileno(), sent.offset, end)
            is_small = end - sent.offset <= WHOLE_BYTES
            sent.tried = (location.key, end)
            location.store.put(location.key, b"".join(pieces) if is_small else pieces)
            self._note(sent, end, file.fileno())

    def _settle(self, sent: _Sent, descriptor: int) -> None:
        """A put whose response was lost may have succeeded: then its bytes are not sent again."""
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
        """How far this file is uploaded; from its start if it is not the file that was sent."""
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
        assert self._stored is not None
        folder, _, name = path.rpartition("/")
        for source in sorted(self._stored, reverse=True):
            if (source.folder, source.name, source.host) != (folder, name, self._host):
                continue
            piece = self._stored.pop(source)[-1]
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

    def _list_stored(self) -> None:
        stored = by_source(list_event_files(self._to))
        newest = (piece.chunk.sent for pieces in stored.values() for piece in pieces)
        self._last_sent = max(newest, default=0)
        self._stored = {source: pieces for source, pieces in stored.items() if source.host}
        self._used = set(self._stored)

    def _count(self, waiting: Mapping[str, FileState]) -> None:
        self._set_pending(
            file.size - (self._sent[path].offset if path in self._sent else 0)
            for path, file in waiting.items()
            if not self._is_sent(path, file)
        )


def whole_records_end(descriptor: int, start: int, size: int) -> int:
    """The end of the last complete record at or after `start`, by the headers alone.

    Stops at bytes that are no record; they are uploaded when the script is over, as they are.
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


def _is_at(sent: _Sent, file: FileState | None) -> bool:
    return file is not None and file.inode == sent.inode


def _continues(sent: _Sent, descriptor: int) -> bool:
    """Whether the file still ends, up to where it was sent, as it did then."""
    start = sent.offset - len(sent.tail)
    return os.pread(descriptor, len(sent.tail), start) == sent.tail


def _bytes(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = os.pread(descriptor, min(READ_BYTES, end - start), start)
        if not data:
            raise FileNotFoundError("truncated while it was being sent")
        start += len(data)
        yield data
