"""Streams folders as one .tar.gz: the model and output archives, and a job's source.

Nothing is written to disk; the caller consumes the chunks. Several hosts' folders are merged at the
root. `files/extract.py` unpacks; `files/deflate.py` compresses.
"""

import errno
import logging
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from trackside.errors import ArchiveError
from trackside.files.deflate import BLOCK_BYTES, Piece, gzipped
from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.quick_dataclass import dataclass

SMALL_FILE_BYTES = 64 << 20
"""Files up to this size (vocabularies, configuration, source) are worth zlib's level 6 where it
compresses better; larger ones (weights) always go at full speed.
"""

_log = logging.getLogger(__name__)
_READ_BYTES = 4 << 20
_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
}

Warn = Callable[[str], None]


class Origin(Protocol):
    """Where members come from: a folder here, or the part of a host elsewhere."""

    @property
    def host(self) -> str: ...

    def members(self, warn: Warn) -> "Iterator[Member]":
        """In any order, but folders before their content."""
        ...

    def frame(self, member: "Member", warn: Warn) -> "Frame | None":
        """None for one that is left out."""
        ...

    def file(self, member: "Member", warn: Warn) -> Iterator[bytes] | None:
        """The content of a file, or of the file that a link leads to; None for any other."""
        ...

    def has_entries(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Source:
    """A folder whose content goes to the archive's root, or a single file under its own name."""

    path: Path
    host: str = "algo-1"
    into: str = ""
    """A folder inside the archive, instead of its root."""
    seen_as: str = ""
    """The folder's path in the script: its absolute links start with it."""
    script_folder: ScriptFolder | None = None
    """How the path is read, if links above it are not to be trusted."""

    @property
    def opened(self) -> ScriptFolder:
        return self.script_folder or ScriptFolder(self.path)

    def members(self, warn: Warn) -> "Iterator[Member]":
        return _found(self, warn)

    def frame(self, member: "Member", warn: Warn) -> "Frame | None":
        if member.kind == stat.S_IFREG:
            return _file(self, member, warn)
        if member.kind == stat.S_IFLNK:
            return _link(self, member, warn)
        return _folder(member, warn)

    def file(self, member: "Member", warn: Warn) -> Iterator[bytes] | None:
        below = self.file_below(member, warn)
        return _read(self.opened, below) if below else None

    def file_below(self, member: "Member", warn: Warn) -> str:
        """The path of that file; empty without any."""
        path = Path(os.path.realpath(member.path))  # unlike `resolve`, accepts links in a circle
        if not path.is_file():
            return ""
        root = self.path.resolve()
        if not path.is_relative_to(root):
            warn(f"{str(member.path)!r} is left out: it leads outside the folder")
            return ""
        return str(path.relative_to(root))

    def has_entries(self) -> bool:
        with self.opened.entries() as entries:
            return bool(entries)


class Clash(Enum):
    """What happens to a name in several sources."""

    LAST_WINS = "last_wins"
    HOST_FOLDER = "host_folder"
    """The first keeps the name; those of later hosts go below a folder with the host's name."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or link and its path in the archive."""

    name: str
    path: Path
    """For messages, where it is not on this machine."""
    kind: int
    """The file type bits of its mode."""
    source: Origin
    below: str = ""
    """Its path relative to the source; empty for a source that is a single file."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What an archive has of a member besides its name. To be closed."""

    kind: int
    mode: int
    mtime: int
    size: int = 0
    goal: str = ""
    """Of a link."""
    content: Iterable[Piece] = ()
    """With tar's padding."""
    handle: int = -1
    """The open file that the content is read from, if any."""

    def header(self, name: str) -> Piece:
        info = tarfile.TarInfo(name)
        info.type = _TYPES[self.kind]
        info.mode, info.mtime, info.size = self.mode, self.mtime, self.size
        info.linkname = self.goal
        return Piece(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"), careful=True)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)


END = Piece(bytes(2 * tarfile.BLOCKSIZE), careful=True)
"""After the last member."""


def pack(
    sources: Sequence[Origin],
    *,
    clash: Clash = Clash.LAST_WINS,
    warn: Warn = _log.warning,
    threads: int | None = None,
) -> Iterator[bytes]:
    """The archive's bytes, deterministic for the same files, with a few megabytes of memory.

    Sockets, FIFOs, devices and links that lead outside are left out; a file that shrinks, grows or
    vanishes while it is read never damages the archive. Each is passed to `warn`. An unreadable
    file is an `ArchiveError`. Closing the iterator early ends its threads.
    """
    members = plan(sources, clash=clash, warn=warn)
    return gzipped(_framed(members, warn), threads=threads)


def plan(sources: Sequence[Origin], *, clash: Clash, warn: Warn = _log.warning) -> list[Member]:
    """What `pack` will put where, in the archive's order."""
    chosen: dict[str, Member] = {}
    made: set[str] = set()
    for source in sources:
        for member in source.members(warn):
            if clash is Clash.HOST_FOLDER:
                member = _beside(chosen, made, member)
            else:
                _give_way(chosen, member)
            chosen[member.name] = member
    return [chosen[name] for name in sorted(chosen, key=os.fsencode)]


def _found(source: Source, warn: Warn) -> Iterator[Member]:
    root = source.path
    try:
        if source.script_folder is not None or root.is_dir():
            yield from _walk(source, warn)
        else:
            path = root.resolve(strict=True)
            yield Member(_joined(source.into, root.name), path, stat.S_IFREG, source)
    except FileNotFoundError as failure:
        raise ArchiveError(f"There is no {str(root)!r} to pack.") from failure


def _walk(source: Source, warn: Warn) -> Iterator[Member]:
    waiting = [("", source.into)]  # no recursion: folders may be nested without limit
    while waiting:
        folder, prefix = waiting.pop()
        for entry, kind in _entries(folder, source, warn):
            below, name = _joined(folder, entry), _joined(prefix, entry)
            path = source.path / below
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                warn(f"{str(path)!r} is left out: neither a file, a folder nor a link")
                continue
            yield Member(name, path, kind, source, below)
            if kind == stat.S_IFDIR:
                waiting.append((below, name))


def _entries(folder: str, source: Source, warn: Warn) -> list[tuple[str, int]]:
    """Name and kind of each."""
    path = source.path / folder
    found = []
    try:
        with source.opened.entries(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    warn(f"{str(path / entry.name)!r} vanished while it was packed")
                else:
                    found.append((entry.name, stat.S_IFMT(status.st_mode)))
    except OSError as failure:
        if not folder or failure.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise _unreadable(path, failure) from failure
        warn(f"Folder {str(path)!r} vanished while it was packed")
    return found


def _beside(chosen: dict[str, Member], made: set[str], member: Member) -> Member:
    """The member under a name that is free. `made` are the folders made for such names."""
    folder, renamed = member.source.host, member
    while _rivals(chosen, renamed) or (renamed.kind != stat.S_IFDIR and renamed.name in made):
        if renamed is not member:
            folder = f"{folder}/{member.source.host}"
        while _rivals(chosen, replace(member, name=folder, kind=stat.S_IFDIR)):
            folder += "_"  # the host's name is that of a file
        renamed = replace(member, name=_joined(folder, member.name))
    if renamed is not member:
        made.update(map(str, PurePosixPath(renamed.name).parents))
    return renamed


def _give_way(chosen: dict[str, Member], member: Member) -> None:
    for rival in _rivals(chosen, member):
        if chosen.pop(rival).kind == stat.S_IFDIR:
            below = rival + "/"
            for name in [name for name in chosen if name.startswith(below)]:
                del chosen[name]


def _rivals(chosen: dict[str, Member], member: Member) -> list[str]:
    """Existing names that conflict with this one. Two folders do not."""
    rivals = []
    end = member.name.find("/")
    while end >= 0:
        above = chosen.get(member.name[:end])
        if above is not None and above.kind != stat.S_IFDIR:
            rivals.append(above.name)
        end = member.name.find("/", end + 1)
    same = chosen.get(member.name)
    if same is not None and not same.kind == member.kind == stat.S_IFDIR:
        rivals.append(member.name)
    return rivals


def _framed(members: Sequence[Member], warn: Warn) -> Iterator[Piece]:
    for member in members:
        frame = member.source.frame(member, warn)
        if frame is not None:
            with closing(frame):
                yield frame.header(member.name)
                yield from frame.content
    yield END


def _file(source: Source, member: Member, warn: Warn) -> Frame | None:
    try:
        handle = _opened(source, member)
    except FileNotFoundError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return None
    except OSError as failure:
        if not isinstance(failure, NoPlainFile) or failure.errno == errno.ELOOP:
            raise _unreadable(member.path, failure) from failure
        warn(f"{str(member.path)!r} became something else while it was packed")
        return None
    status = os.fstat(handle)
    content = _content(member.path, handle, status.st_size, warn)
    return _frame(member.kind, status, size=status.st_size, content=content, handle=handle)


def _opened(source: Source, member: Member) -> int:
    if member.below:
        return source.opened.open(member.below)
    return ScriptFolder(member.path.parent).open(member.path.name)


def _content(path: Path, handle: int, size: int, warn: Warn) -> Iterator[Piece]:
    """Exactly `size` bytes and tar's padding, whatever happens to the file meanwhile."""
    careful = size <= SMALL_FILE_BYTES
    left = size
    while left:
        try:
            data = os.read(handle, min(left, BLOCK_BYTES))
        except OSError as failure:
            raise _unreadable(path, failure) from failure
        if not data:
            break
        left -= len(data)
        yield Piece(data, careful)
    if left:
        warn(f"{str(path)!r} shrank while it was packed: its last {left:,} bytes are zeros")
    elif os.fstat(handle).st_size > size:
        warn(f"{str(path)!r} grew while it was packed: it holds the first {size:,} bytes")
    while left:
        portion = min(left, BLOCK_BYTES)
        left -= portion
        yield Piece(bytes(portion), careful)
    yield Piece(bytes(-size % tarfile.BLOCKSIZE), careful=True)


def _link(source: Source, member: Member, warn: Warn) -> Frame | None:
    try:
        status, goal = os.lstat(member.path), os.readlink(member.path)
    except OSError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return None
    inside = _goal_inside(source, member, goal)
    if inside is None:
        warn(f"Link {str(member.path)!r} is left out: it leads to {goal!r}, outside the folder")
        return None
    return _frame(member.kind, status, goal=inside)


def _goal_inside(source: Source, member: Member, goal: str) -> str | None:
    """The link's relative target; None when it leads out of the source."""
    seen_as = PurePosixPath(source.seen_as or source.path)
    if PurePosixPath(goal).is_relative_to(seen_as):
        path = source.path / PurePosixPath(goal).relative_to(seen_as)
    else:
        path = member.path.parent / goal
    top = os.path.realpath(source.path)
    end = os.path.realpath(path)
    if end != top and not end.startswith(top + "/"):
        return None
    depth = len(member.path.relative_to(source.path).parts) - 1
    if goal.startswith("/") or goal.split("/").count("..") > depth:
        # Folders on the way may exist on this machine only.
        return os.path.relpath(end, os.path.realpath(member.path.parent))
    return goal


def _folder(member: Member, warn: Warn) -> Frame | None:
    try:
        return _frame(member.kind, os.lstat(member.path))
    except FileNotFoundError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return None


def _frame(kind: int, status: os.stat_result, **rest: Any) -> Frame:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return Frame(kind, mode, int(status.st_mtime), **rest)  # whole seconds need no extended header


def _read(folder: ScriptFolder, below: str) -> Iterator[bytes]:
    with open(folder.open(below), "rb") as file:
        while data := file.read(_READ_BYTES):
            yield data


def _joined(folder: str, name: str) -> str:
    return f"{folder.strip('/')}/{name}" if folder.strip("/") else name


def _unreadable(path: Path, failure: OSError) -> ArchiveError:
    is_too_long = failure.errno == errno.ENAMETOOLONG
    remedy = "nest its folders less deeply" if is_too_long else "make it readable"
    return ArchiveError(
        f"{str(path)!r} cannot be packed: {failure.strerror}. "
        f"It is still there; {remedy} and pack again."
    )
