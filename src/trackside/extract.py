"""Unpacks a .tar.gz that a stranger may have made; nothing lands outside the target.

Standard library only, so that the in-container half can share it. Packing is `archive.py`.
"""

import errno
import gzip
import io
import logging
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trackside.errors import ArchiveError, DiskFull

LINK_HOPS = 40
"""As many symbolic links as the kernel follows before it gives up."""
METADATA_BYTES = 1 << 20
"""The longest extended header that is believed; a real one has a few hundred bytes."""
SHOWN_WARNINGS = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an archive may unfold to. Beyond it extraction stops and gives the space back."""

    total_bytes: int = 16 << 30
    members: int = 200_000
    depth: int = 128
    """Folders inside one another."""


def extract(
    archive: Path | IO[bytes],
    target: Path,
    *,
    limits: Limits | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> None:
    """Unpack a gzip-compressed tar into `target`, which must be absent or empty.

    A member that names a place outside lands inside (`/a/b` as `a/b`), one that is a device, a FIFO
    or a link to the outside is left out, each with a warning: a hostile archive does not fail the
    job. A damaged one, and one beyond `limits`, is an `ArchiveError`; then `target` is as before.
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
    """One archive on its way to disk. Links are kept back until every file is in place,
    so that no member is ever written through one."""

    def __init__(
        self, archive: str, target: Path, limits: Limits, warn: Callable[[str], None]
    ) -> None:
        self._archive = archive
        self._target = target
        self._limits = limits
        self._warn_caller = warn
        self._num_warnings = 0
        self._links: dict[str, str] = {}
        self._bytes_left = limits.total_bytes

    def run(self, file: IO[bytes]) -> None:
        try:
            self._read_members(file)
        except EOFError as failure:
            raise ArchiveError(
                f"Archive {self._archive!r} is cut short: the compressed data ends before the "
                "archive does. Copy or pack it again."
            ) from failure
        except gzip.BadGzipFile as failure:
            raise ArchiveError(
                f"{self._archive!r} is not a sound gzip file ({failure}). Pack it as .tar.gz, "
                "as `tar -czf` does."
            ) from failure
        except (zlib.error, tarfile.TarError, ValueError, OverflowError) as failure:
            raise ArchiveError(
                f"Archive {self._archive!r} is damaged: {failure}. Copy or pack it again."
            ) from failure
        for name in sorted(self._links):
            self._place_link(name, self._links[name])
        unseen = self._num_warnings - SHOWN_WARNINGS
        if unseen > 0:
            self._warn_caller(f"{unseen} more members of {self._archive!r} were changed or skipped")

    def _read_members(self, file: IO[bytes]) -> None:
        # Headers and padding come on top of the content: a kilobyte per member is plenty.
        most = self._limits.total_bytes + (self._limits.members + 20) * 2048
        stream = _Forward(gzip.GzipFile(fileobj=file), self._archive, most)
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for count, member in enumerate(iter(tar.next, None), start=1):
                if count > self._limits.members:
                    raise self._beyond(member.name, f"more than {self._limits.members:,} members")
                self._take(tar, member)
                tar.members = []  # type: ignore[attr-defined]  # or tarfile remembers them all
        if stream.drain():
            self._warn_caller(f"{self._archive!r} has data after its end, or a damaged header")

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        given, name = member.name, safe_name(member.name)
        if not name:
            if given.rstrip("/") not in ("", "."):
                self._warn(given, "skipped: nothing of its name is left inside the target")
            return
        if name != given.removeprefix("./").rstrip("/"):
            self._warn(given, f"lands as {name!r}, inside the target")
        if name.count("/") >= self._limits.depth:
            raise self._beyond(given, f"more than {self._limits.depth} folders deep")
        checked = self._checked(member.replace(name=name, deep=False))
        if checked is None or not self._make_room(checked):
            return
        if checked.isdir():
            (self._target / name).mkdir(exist_ok=True)
        elif checked.issym():
            self._links[name] = checked.linkname
        elif checked.islnk():
            self._link_hard(name, checked)
        else:
            self._write(tar, checked)

    def _checked(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """The member without ownership and set-id bits; None, with a warning, if unfit."""
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            self._warn(member.name, "skipped: neither a file, a folder nor a link")
            return None
        if member.islnk():
            goal = member.linkname.removeprefix("./")
            if goal != safe_name(goal) or goal == member.name:
                self._warn(member.name, f"skipped: it links to {goal!r}, outside or itself")
                return None
        if not hasattr(tarfile, "data_filter"):  # came with 3.11.4
            mode = 0o755 if member.mode & 0o100 else 0o644
            return member.replace(mode=mode, deep=False)
        try:
            return tarfile.data_filter(member, str(self._target))
        except tarfile.FilterError as refusal:
            self._warn(member.name, f"skipped: {refusal}")
            return None

    def _make_room(self, member: tarfile.TarInfo) -> bool:
        """Parents exist as folders and nothing stands at the name itself, as tar has it:
        the later member wins."""
        parts = member.name.split("/")
        for depth in range(1, len(parts)):
            self._remove("/".join(parts[:depth]))
        path = self._target / member.name
        if path.is_dir() and not member.isdir():
            self._warn(member.name, "skipped: a folder of that name came before it")
            return False
        self._remove(member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return True

    def _remove(self, name: str) -> None:
        self._links.pop(name, None)
        path = self._target / name
        if path.exists() and not path.is_dir():
            path.unlink()

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if not 0 <= member.size <= self._bytes_left:
            raise self._beyond(member.name, f"more than {self._limits.total_bytes:,} bytes in all")
        self._bytes_left -= member.size
        path = self._target / member.name
        content = tar.extractfile(member)
        assert content is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = (member.mode or 0o644) & 0o755
        with open(os.open(path, flags, mode), "wb") as file:
            shutil.copyfileobj(content, file, METADATA_BYTES)
        moment = min(max(member.mtime, 0), 1 << 33)
        os.utime(path, (moment, moment))

    def _link_hard(self, name: str, member: tarfile.TarInfo) -> None:
        first = self._target / safe_name(member.linkname)
        if first.is_file():
            os.link(first, self._target / name)
        else:
            self._warn(name, f"skipped: {member.linkname!r}, which it links to, is no file here")

    def _place_link(self, name: str, goal: str) -> None:
        if self._stays_inside(name):
            os.symlink(goal, self._target / name)
        else:
            self._warn(name, f"skipped: it leads to {goal!r}, outside")

    def _stays_inside(self, name: str) -> bool:
        """Follow the link by name alone, through all the archive's other links."""
        here: list[str] = []
        ahead = name.split("/")[::-1]
        hops = 0
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not here:
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

    def _beyond(self, member: str, limit: str) -> ArchiveError:
        return ArchiveError(
            f"Archive {self._archive!r} has {limit} (reached at member {member!r}); what was "
            "unpacked is removed again. Pack less, or allow more if you trust the archive."
        )


class _Forward(io.RawIOBase):
    """A stream that tarfile may only read onwards, in sane portions, up to a limit.

    A header that claims gigabytes of metadata, or a negative size (CVE-2025-8194), ends here.
    """

    def __init__(self, stream: gzip.GzipFile, archive: str, most_bytes: int) -> None:
        self._stream = stream
        self._archive = archive
        self._position = 0
        self._most_bytes = most_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= METADATA_BYTES:
            raise tarfile.ReadError(f"a header claims {size} bytes of metadata")
        data = self._stream.read(size)
        self._position += len(data)
        if self._position > self._most_bytes:
            raise ArchiveError(
                f"Archive {self._archive!r} unfolds to more than {self._most_bytes:,} bytes; what "
                "was unpacked is removed again. Pack less, or allow more if you trust the archive."
            )
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or position < self._position:
            raise tarfile.ReadError("a header points backwards")
        while self._position < position:
            if not self.read(min(METADATA_BYTES, position - self._position)):
                raise EOFError
        return position

    def drain(self) -> bool:
        """Read to the end, where gzip keeps its checksum; whether there was more than padding."""
        more = False
        while data := self.read(METADATA_BYTES):
            more = more or any(data)
        return more


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
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"No space left in {str(target)!r} while unpacking {archive!r}; what was unpacked is "
            "removed again. Free some space there and try again."
        )
    place = f" at {failure.filename!r}" if failure.filename else ""
    return ArchiveError(
        f"Archive {archive!r} cannot be unpacked{place}: {failure.strerror or failure}."
    )
