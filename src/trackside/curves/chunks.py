"""Event files in object storage: chunks cut between records, with names that sort by upload time.

TensorBoard reads a run's files in the order of their names and never goes back, so a name starts
with the upload time. The rest names the file and the byte range, so that a supervisor that takes
over continues where the last one stopped, and a reader can join the chunks.
"""

import re
from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.records.event_names import is_event_file

_NAME = re.compile(r"(\d{16})\.([A-Za-z0-9-]+)\.(\d+)\.(\d{12,})\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A file as written by one writer."""

    folder: str
    """The folder relative to the synced one; empty at its top. TensorBoard calls it a run."""
    name: str
    host: str = ""
    """Empty for a file that was never chunked."""
    generation: int = 0
    """Increases when the file is recreated under the same name."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a source: those from `offset` on, as many as the object has."""

    source: Source
    offset: int
    sent: int
    """Microseconds since the epoch, and greater than that of every chunk sent before."""

    @property
    def path(self) -> str:
        source = self.source
        order = f"{self.sent:016d}.{source.host}.{source.generation}.{self.offset:012d}"
        name = f"{order}.{source.name}"
        return f"{source.folder}/{name}" if source.folder else name


@dataclass(frozen=True, slots=True)
class Piece:
    """An object with bytes of a source."""

    key: str
    chunk: Chunk
    size: int

    @property
    def end(self) -> int:
        return self.chunk.offset + self.size


def parse(path: str) -> Chunk:
    """What an object is, by its path below the synced folder; an unchunked file is one chunk."""
    folder, _, name = path.rpartition("/")
    matched = _NAME.fullmatch(name)
    if matched is None:
        return Chunk(Source(folder, name), 0, 0)
    sent, host, generation, offset, original = matched.groups()
    return Chunk(Source(folder, original, host, int(generation)), int(offset), int(sent))


def by_source(objects: Iterable[tuple[str, str, int]]) -> dict[Source, list[Piece]]:
    """Objects (path, key, size) by the file they come from, in the file's order.

    A piece whose bytes an earlier one also has, as during a merge, is omitted.
    """
    pieces: dict[Source, list[Piece]] = {}
    for path, key, size in objects:
        if is_event_file(path):
            piece = Piece(key, parse(path), size)
            pieces.setdefault(piece.chunk.source, []).append(piece)
    return {source: _without_repeats(found) for source, found in pieces.items()}


def _without_repeats(pieces: list[Piece]) -> list[Piece]:
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.chunk.offset, -piece.size)):
        if not kept or piece.end > kept[-1].end:
            kept.append(piece)
    return kept
