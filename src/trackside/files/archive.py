"""Streams folders as one .tar.gz: the model and output archives, and a job's source.

Nothing is written to disk; the caller consumes the chunks. Several hosts' folders are merged at the
root. `files/extract.py` unpacks; `files/deflate.py` compresses.
"""

import errno
import logging
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path, PurePosixPath

from trackside.errors import ArchiveError
from trackside.files.deflate import BLOCK_BYTES, Piece, gzipped
from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.quick_dataclass import dataclass

SMALL_FILE_BYTES = 64 << 20
"""Files up to this size (vocabularies, configuration, source) are worth zlib's level 6 where it
compresses better; larger ones (weights) always go at full speed.
"""

_log = logging.getLogger(__name__)


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


class Clash(Enum):
    """What happens to a name in several sources."""

    LAST_WINS = "last_wins"
    HOST_FOLDER = "host_folder"
    """The first keeps the name; those of later hosts go below a folder with the host's name."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or link on disk and its path in the archive."""

    name: str
    path: Path
    kind: int
    """The file type bits of its mode."""
    source: Source
    below: str = ""
    """Its path relative to the source; empty for a source that is a single file."""


def pack(
    sources: Sequence[Source],
    *,
    clash: Clash = Clash.LAST_WINS,
    warn: Callable[[str], None] = _log.warning,
    threads: int | None = None,
) -> Iterator[bytes]:
    """The archive's bytes, deterministic for the same files, with a few megabytes of memory.

    Sockets, FIFOs, devices and links that lead outside are left out; a file that shrinks, grows or
    vanishes while it is read never damages the archive. Each is passed to `warn`. An unreadable
    file is an `ArchiveError`. Closing the iterator early ends its threads.
    """
    members = plan(sources, clash=clash, warn=warn)
    return gzipped(_framed(members, warn), threads=threads)


def plan(
    sources: Sequence[Source], *, clash: Clash, warn: Callable[[str], None] = _log.warning
) -> list[Member]:
    """What `pack` will put where, in the archive's order."""
    chosen: dict[str, Member] = {}
    for source in sources:
        for member in _found(source, warn):
            if clash is Clash.HOST_FOLDER:
                member = _beside(chosen, member)
            else:
                _give_way(chosen, member)
            chosen[member.name] = member
    return [chosen[name] for name in sorted(chosen, key=os.fsencode)]


def _found(source: Source, warn: Callable[[str], None]) -> Iterator[Member]:
    root = source.path
    try:
        if source.script_folder is not None or root.is_dir():
            yield from _walk(source, warn)
        else:
            path = root.resolve(strict=True)
            yield Member(_joined(source.into, root.name), path, stat.S_IFREG, source)
    except FileNotFoundError as failure:
        raise ArchiveError(f"There is no {str(root)!r} to pack.") from failure


def _walk(source: Source, warn: Callable[[str], None]) -> Iterator[Member]:
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


def _entries(folder: str, source: Source, warn: Callable[[str], None]) -> list[tuple[str, int]]:
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


def _beside(chosen: dict[str, Member], member: Member) -> Member:
    while _rivals(chosen, member):
        member = replace(member, name=_joined(member.source.host, member.name))
    return member


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


def _framed(members: Sequence[Member], warn: Callable[[str], None]) -> Iterator[Piece]:
    for member in members:
        if member.kind == stat.S_IFREG:
            yield from _file(member, warn)
        elif member.kind == stat.S_IFLNK:
            yield from _link(member, warn)
        else:
            yield from _folder(member, warn)
    yield Piece(bytes(2 * tarfile.BLOCKSIZE), careful=True)


def _file(member: Member, warn: Callable[[str], None]) -> Iterator[Piece]:
    try:
        handle = _opened(member)
    except FileNotFoundError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return
    except OSError as failure:
        if not isinstance(failure, NoPlainFile) or failure.errno == errno.ELOOP:
            raise _unreadable(member.path, failure) from failure
        warn(f"{str(member.path)!r} became something else while it was packed")
        return
    try:
        status = os.fstat(handle)
        info = _info(member.name, status)
        info.size = status.st_size
        yield _header(info)
        yield from _content(member.path, handle, info.size, warn)
    finally:
        os.close(handle)


def _opened(member: Member) -> int:
    if member.below:
        return member.source.opened.open(member.below)
    return ScriptFolder(member.path.parent).open(member.path.name)


def _content(path: Path, handle: int, size: int, warn: Callable[[str], None]) -> Iterator[Piece]:
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


def _link(member: Member, warn: Callable[[str], None]) -> Iterator[Piece]:
    try:
        status, goal = os.lstat(member.path), os.readlink(member.path)
    except OSError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return
    inside = _goal_inside(member, goal)
    if inside is None:
        warn(f"Link {str(member.path)!r} is left out: it leads to {goal!r}, outside the folder")
        return
    info = _info(member.name, status)
    info.type = tarfile.SYMTYPE
    info.linkname = inside
    yield _header(info)


def _goal_inside(member: Member, goal: str) -> str | None:
    """The link's relative target; None when it leads out of the source."""
    source = member.source
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


def _folder(member: Member, warn: Callable[[str], None]) -> Iterator[Piece]:
    try:
        info = _info(member.name, os.lstat(member.path))
    except FileNotFoundError:
        warn(f"{str(member.path)!r} vanished while it was packed")
        return
    info.type = tarfile.DIRTYPE
    yield _header(info)


def _info(name: str, status: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(status.st_mode) & 0o777
    info.mtime = int(status.st_mtime)  # whole seconds need no extended header
    return info


def _header(info: tarfile.TarInfo) -> Piece:
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    return Piece(header, careful=True)


def _joined(folder: str, name: str) -> str:
    return f"{folder.strip('/')}/{name}" if folder.strip("/") else name


def _unreadable(path: Path, failure: OSError) -> ArchiveError:
    is_too_long = failure.errno == errno.ENAMETOOLONG
    remedy = "nest its folders less deeply" if is_too_long else "make it readable"
    return ArchiveError(
        f"{str(path)!r} cannot be packed: {failure.strerror}. "
        f"It is still there; {remedy} and pack again."
    )
