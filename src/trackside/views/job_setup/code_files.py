"""The code of a job, from the archive or the folder in storage that it ran: which files, and the
text of one.

An archive may be from anybody: nothing is unpacked to disk, and every size is bounded.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import RawIOBase
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

from trackside.errors import ArchiveError, ObjectNotFound, StorageError
from trackside.files.extract import safe_name
from trackside.files.tar_header import Kind
from trackside.files.tar_reader import TarReader
from trackside.files.tar_stream import BeyondLimit, DamagedTar, TarStream
from trackside.jobs.described_locations import keys_of
from trackside.storage.locate import Location, entries_below, locate_object_to_read
from trackside.texts.secret_names import mask_code
from trackside.views.job_setup.repeat_command import plain

MOST_FILES = 5000
MOST_TEXT_BYTES = 1 << 20
"""Of one file."""
MOST_COMPARED_BYTES = 32 << 20
"""Of all files of a job, if they are compared with those of another."""
MOST_ARCHIVE_BYTES = 256 << 20
"""Unpacked: what comes later in a larger archive is not shown."""
MOST_PACKED_BYTES = 64 << 20
MOST_KNOWN_BYTES = 4 << 20
"""Packed: what is in a larger archive is not remembered."""
_MOST_KNOWN = 256
_DAMAGE = (BeyondLimit, DamagedTar, EOFError, OSError, zlib.error)
"""What reading an archive may raise; `OSError` is gzip's."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CodeText:
    path: str
    text: str
    """What looks like a secret is `***`."""
    truncated: bool
    binary: bool = False
    """Then there is no text."""


@dataclass(frozen=True, slots=True)
class CodeContent:
    text: CodeText
    digest: str
    """Over its size and the part that was read."""


def files_of(described: Mapping[str, Any], home: Path) -> list[CodeFile]:
    """By path; empty if no code was stored with the job."""
    found: dict[str, CodeFile] = {}
    for file, _ in _read(described, home):
        found[file.path] = file
        if len(found) == MOST_FILES:
            break
    return [found[path] for path in sorted(found)]


def text_of(described: Mapping[str, Any], home: Path, path: str) -> CodeText:
    """`ObjectNotFound` if the code has no such file."""
    for file, content in _read(described, home, only=path):
        if file.path == path:
            return as_text(file, content)
    raise ObjectNotFound(f"The code of the job has no file {path!r}. Its setup lists all files.")


def contents_of(described: Mapping[str, Any], home: Path) -> dict[str, CodeContent]:
    """All files, until they have `MOST_COMPARED_BYTES` together: the rest is left out."""
    return {
        file.path: CodeContent(as_text(file, content), _digest(file, content))
        for file, content in _compared(_read(described, home, only=None))
    }


def digests_of(described: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The digests of the same files. Quick for many jobs of the same code."""
    place = _place(described, home)
    version = _version(place) if place is not None else ""
    if version in _digests:
        return _digests[version]
    read = _compared(_read(described, home, only=None))
    found = {file.path: _digest(file, content) for file, content in read}
    if version:
        with _lock:
            while len(_digests) >= _MOST_KNOWN:
                del _digests[next(iter(_digests))]
            _digests[version] = found
    return found


_digests: dict[str, dict[str, str]] = {}
"""Of the files in an archive, by the digest of the archive: the jobs of a sweep have the same."""
_lock = Lock()


def _version(place: Location) -> str:
    """What identifies the content of an archive that is not large; empty for others, and for
    folders."""
    if place.local is not None and place.local.is_dir():
        return ""
    try:
        packed = place.store.get(place.key, 0, MOST_KNOWN_BYTES + 1)
    except StorageError:
        return ""
    return sha256(packed).hexdigest() if len(packed) <= MOST_KNOWN_BYTES else ""


def _compared(files: Iterable[tuple[CodeFile, bytes]]) -> Iterator[tuple[CodeFile, bytes]]:
    left = MOST_COMPARED_BYTES
    for number, (file, content) in enumerate(files):
        left -= len(content)
        if left < 0 or number == MOST_FILES:
            return
        yield file, content


def _digest(file: CodeFile, content: bytes) -> str:
    return sha256(b"%d " % file.size_bytes + content).hexdigest()


def as_text(file: CodeFile, content: bytes) -> CodeText:
    if b"\0" in content[:8192]:
        return CodeText(file.path, "", truncated=False, binary=True)
    is_cut = file.size_bytes > len(content)
    return CodeText(file.path, mask_code(content.decode(errors="replace")), is_cut)


_NONE = ""
"""No file has this path: only names and sizes are wanted."""


def _read(
    described: Mapping[str, Any], home: Path, only: str | None = _NONE
) -> Iterator[tuple[CodeFile, bytes]]:
    """Each file with the beginning of its content; of other files than `only`, if that is given,
    without."""
    place = _place(described, home)
    if place is None:
        return
    if place.local is not None and place.local.is_dir():
        yield from _of_folder(place, only)
        return
    try:
        yield from _of_archive(place, only)
    except ObjectNotFound:
        return  # a job that ran a folder in place, before scripts of such jobs were stored
    except DamagedTar as error:
        raise ArchiveError(f"The code {place.uri!r} cannot be read: {error}.") from error


def _place(described: Mapping[str, Any], home: Path) -> Location | None:
    """What the job names as its source, else what was stored to show it."""
    source = plain(described, "sagemaker_submit_directory")
    return locate_object_to_read((source or keys_of(described).source).rstrip("/"), home=home)


def _of_folder(place: Location, only: str | None) -> Iterator[tuple[CodeFile, bytes]]:
    for name, entry in islice(entries_below(place), MOST_FILES):
        content = b""
        if only in (None, name):
            content = place.store.get(entry.key, 0, MOST_TEXT_BYTES)
        yield CodeFile(name, entry.size_bytes), content


def _of_archive(place: Location, only: str | None) -> Iterator[tuple[CodeFile, bytes]]:
    """Up to where it is damaged or larger than its limits, if anything could be read before."""
    stream = cast(IO[bytes], _Stored(place))
    reader = TarReader(TarStream(stream, most_bytes=MOST_ARCHIVE_BYTES))
    has_any = False
    try:
        for member in reader.members():
            name = safe_name(member.name)
            if member.kind is not Kind.FILE or not name:
                continue
            content = b""
            if only in (None, name) and not member.parts:
                size = min(member.size, MOST_TEXT_BYTES)
                content = b"".join(map(bytes, reader.content(size)))
            has_any = True
            yield CodeFile(name, member.size), content
    except _DAMAGE as error:
        if not has_any:
            raise DamagedTar(str(error)) from error


class _Stored(RawIOBase):
    """An object as a file that is read once, from beginning to end."""

    def __init__(self, place: Location) -> None:
        self._pieces = place.store.read(place.key, 0, MOST_PACKED_BYTES)
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count
