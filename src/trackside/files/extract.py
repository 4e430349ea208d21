"""Unpacks a .tar.gz that may be malicious; nothing is written outside the target.

Decides what a member becomes on disk. `tar_reader` parses an archive; `archive` packs. Standard
library only, so that the in-container half can share it.
"""

import gzip
import logging
import os
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from trackside.errors import ArchiveError, DiskFull
from trackside.files.disk_space import is_full
from trackside.files.tar_header import Kind, Member
from trackside.files.tar_reader import TarReader
from trackside.files.tar_stream import BeyondLimit, TarStream
from trackside.quick_dataclass import dataclass

LINK_HOPS = 40
"""Maximum symbolic links to follow, as in the kernel."""
LINK_STEPS = 10_000_000
"""Names resolved to follow all links of an archive: takes seconds. A link needs a handful."""
PATH_CHARS = 4096
"""The longest name or link target accepted, as in the kernel."""
NAMES_CHARS = 1 << 27
"""Of all names together, which are held in memory."""
SHOWN_WARNINGS = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the unpacked content. Beyond them extraction stops and frees the space."""

    total_bytes: int = 16 << 30
    members: int = 200_000
    """And as many folders that only members' names imply."""
    depth: int = 128
    """Depth of nested folders."""


def extract(
    archive: Path | IO[bytes],
    target: Path,
    *,
    limits: Limits | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> None:
    """Unpack a gzip-compressed tar into `target`, which must be absent or empty.

    A member with a path outside is written inside (`/a/b` as `a/b`); a device, a FIFO or a link to
    the outside is skipped, each with a warning: a malicious archive does not fail the job. A
    damaged one, and one beyond `limits`, is an `ArchiveError`; then `target` is as before.
    """
    name = str(archive) if isinstance(archive, Path) else getattr(archive, "name", "<stream>")
    existed = _check_empty(target, str(name))
    extraction = _Extraction(str(name), target, limits or Limits(), warn)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if isinstance(archive, Path):
            with archive.open("rb") as file:
                extraction.run(file)
        else:
            extraction.run(archive)
    except BaseException as failure:
        _clear(target, keep=existed)
        if isinstance(failure, OSError):
            raise _explained(failure, str(name), target) from failure
        raise


def safe_name(name: str) -> str:
    """The name as a path below the target; empty when nothing of it is left."""
    unixlike = re.sub(r"^[A-Za-z]:(?=/)", "", name.replace("\\", "/"))
    return "/".join(part for part in unixlike.split("/") if part not in ("", ".", ".."))


class _Extraction:
    """One archive being unpacked.

    The target was empty, so its content is known without listing it. Links are created after every
    file, so that no member is ever written through one.
    """

    def __init__(
        self, archive: str, target: Path, limits: Limits, warn: Callable[[str], None]
    ) -> None:
        self._archive = archive
        self._target = str(target)
        self._limits = limits
        self._warn_caller = warn
        self._num_warnings = 0
        self._folders = {""}
        self._files: set[str] = set()
        self._links: dict[str, str] = {}
        self._bytes_left = limits.total_bytes
        self._implied_left = limits.members
        self._names_left = NAMES_CHARS
        self._steps_left = LINK_STEPS

    def run(self, file: IO[bytes]) -> None:
        try:
            self._read_members(file)
            for name in sorted(self._links):
                self._place_link(name, self._links[name])
        except BeyondLimit as failure:
            raise ArchiveError(
                f"Archive {self._archive!r} has {failure}; what was unpacked is removed again. "
                "Pack less, or allow more if you trust the archive."
            ) from failure
        except EOFError as failure:
            raise ArchiveError(
                f"Archive {self._archive!r} is cut short: the compressed data ends before the "
                "archive does. Copy or pack it again."
            ) from failure
        except gzip.BadGzipFile as failure:
            raise ArchiveError(
                f"{self._archive!r} is not a valid gzip file ({failure}). Pack it as .tar.gz, "
                "as `tar -czf` does."
            ) from failure
        except (zlib.error, ValueError, OverflowError) as failure:
            raise ArchiveError(
                f"Archive {self._archive!r} is damaged: {failure}. Copy or pack it again."
            ) from failure
        unseen = self._num_warnings - SHOWN_WARNINGS
        if unseen > 0:
            self._warn_caller(f"{unseen} more members of {self._archive!r} were changed or skipped")

    def _read_members(self, file: IO[bytes]) -> None:
        # Headers and padding come on top of the content: a kilobyte per member is plenty.
        most = self._limits.total_bytes + (self._limits.members + 20) * 2048
        stream = TarStream(file, most_bytes=most)
        reader = TarReader(stream)
        for count, member in enumerate(reader.members(), start=1):
            if count > self._limits.members:
                raise _beyond(member.name, f"more than {self._limits.members:,} members")
            name = self._name(member)
            if name and self._is_fit(member, name):
                self._place(reader, member, name)
        if stream.drain() or reader.is_damaged:
            self._warn_caller(f"{self._archive!r} has data after its end, or a damaged header")

    def _name(self, member: Member) -> str:
        """The member's path below the target; empty, with a warning, if it is skipped."""
        given = member.name
        if len(given) > PATH_CHARS:
            raise _beyond(given[:80], f"a name of more than {PATH_CHARS:,} characters")
        name = safe_name(given)
        if not name and given.rstrip("/") not in ("", "."):
            self._warn(given, "skipped: nothing of its name is left inside the target")
        elif name != given.removeprefix("./").rstrip("/") and name:
            self._warn(given, f"lands as {name!r}, inside the target")
        if name.count("/") >= self._limits.depth:
            raise _beyond(given[:80], f"members more than {self._limits.depth} folders deep")
        return name

    def _is_fit(self, member: Member, name: str) -> bool:
        match member.kind:
            case Kind.OTHER:
                self._warn(name, "skipped: neither a file, a folder nor a link")
                return False
            case Kind.LINK if len(member.goal) > PATH_CHARS:
                self._warn(name, f"skipped: it leads further than {PATH_CHARS:,} characters")
                return False
            case Kind.HARD_LINK:
                goal = member.goal.removeprefix("./")
                if goal not in self._files or f"{name}/".startswith(f"{goal}/"):
                    self._warn(name, f"skipped: {goal[:80]!r}, its goal, is no other file in here")
                    return False
        if name in self._folders and member.kind is not Kind.FOLDER:
            self._warn(name, "skipped: a folder of that name came before it")
            return False
        return True

    def _place(self, reader: TarReader, member: Member, name: str) -> None:
        """The later member of a name wins, as in tar."""
        parent = name.rpartition("/")[0]
        if parent not in self._folders:
            self._imply(parent)
        if name in self._folders:
            return
        self._remove(name)
        self._keep(name, len(member.goal))
        match member.kind:
            case Kind.FILE:
                self._files.add(name)
                self._write(reader, member, name)
            case Kind.FOLDER:
                self._folders.add(name)
                os.mkdir(self._path(name))
            case Kind.HARD_LINK:
                self._files.add(name)
                first = member.goal.removeprefix("./")
                os.link(self._path(first), self._path(name), follow_symlinks=False)
            case Kind.LINK:
                self._links[name] = member.goal

    def _imply(self, name: str) -> None:
        """Create a folder that has no member of its own, or comes before it, and its parents."""
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            if above in self._folders:
                continue
            self._implied_left -= 1
            if self._implied_left < 0:
                raise _beyond(name[:80], f"more than {self._limits.members:,} folders")
            self._remove(above)
            self._keep(above)
            self._folders.add(above)
            os.mkdir(self._path(above))

    def _remove(self, name: str) -> None:
        self._links.pop(name, None)
        if name in self._files:
            self._files.remove(name)
            os.unlink(self._path(name))

    def _keep(self, name: str, goal_chars: int = 0) -> None:
        self._names_left -= len(name) + goal_chars
        if self._names_left < 0:
            raise _beyond(name[:80], f"names of more than {NAMES_CHARS:,} characters in all")

    def _path(self, name: str) -> str:
        return f"{self._target}/{name}"

    def _write(self, reader: TarReader, member: Member, name: str) -> None:
        if member.size > self._bytes_left:
            raise _beyond(name, f"more than {self._limits.total_bytes:,} bytes in all")
        self._bytes_left -= member.size
        mode = _safe_mode(member.mode)
        moment = min(max(member.mtime, 0), 1 << 33)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path(name), flags, mode)  # less the umask
        try:
            if member.size:
                _fill(handle, reader, member)
            os.utime(handle, (moment, moment))
        finally:
            os.close(handle)

    def _place_link(self, name: str, goal: str) -> None:
        if self._stays_inside(name):
            os.symlink(goal, self._path(name))
        else:
            self._warn(name, f"skipped: it leads to {goal!r}, outside")

    def _stays_inside(self, name: str) -> bool:
        """Resolve the link by name alone, through all other links of the archive."""
        here: list[str] = []
        ahead = name.split("/")[::-1]
        hops = 0
        while ahead:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise _beyond(name, "links that lead through too many others")
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                # Where names are case-insensitive, `..` from a name that is not known to be a
                # folder may be `..` from a link.
                if not here or "/".join(here) not in self._folders:
                    return False
                here.pop()
                continue
            here.append(part)
            goal = self._links.get("/".join(here))
            if goal is not None:
                hops += 1
                if goal.startswith("/") or hops > LINK_HOPS:
                    return False
                here.pop()
                ahead.extend(goal.split("/")[::-1])
        return True

    def _warn(self, member: str, what: str) -> None:
        self._num_warnings += 1
        if self._num_warnings <= SHOWN_WARNINGS:
            self._warn_caller(f"Member {member!r} of {self._archive!r} {what}")


def _fill(handle: int, reader: TarReader, member: Member) -> None:
    for offset, length in member.parts if member.parts is not None else ((0, member.size),):
        os.lseek(handle, offset, os.SEEK_SET)
        for piece in reader.content(length):
            while piece:
                piece = piece[os.write(handle, piece) :]
    if member.parts is not None:
        os.ftruncate(handle, member.size)


def _safe_mode(mode: int) -> int:
    """Set-id bits, and write permission for group and others, are never set."""
    return (mode & 0o755 if mode & 0o100 else mode & 0o644) | 0o600


def _beyond(member: str, limit: str) -> BeyondLimit:
    return BeyondLimit(f"{limit} (reached at member {member!r})")


def _check_empty(target: Path, archive: str) -> bool:
    """Whether the target exists already."""
    if not os.path.lexists(target):
        return False
    if target.is_symlink() or not target.is_dir() or any(target.iterdir()):
        raise ArchiveError(
            f"{archive!r} cannot be unpacked into {str(target)!r}, which is not an empty folder. "
            "Name a new folder, or empty that one."
        )
    return True


def _clear(target: Path, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(target, ignore_errors=True)
        return
    for child in target.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


def _explained(failure: OSError, archive: str, target: Path) -> ArchiveError | DiskFull:
    if is_full(failure):
        return DiskFull(
            f"No space left in {str(target)!r} while unpacking {archive!r}; what was unpacked is "
            "removed again. Free some space there and try again."
        )
    place = f" at {failure.filename!r}" if failure.filename else ""
    return ArchiveError(
        f"Archive {archive!r} cannot be unpacked{place}: {failure.strerror or failure}."
    )
