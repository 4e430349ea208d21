"""Extracts an archive nobody vouches for: nothing goes outside the folder, nothing without end.

Every file is written by us. Links are made last, so that no path ever leads through one, and a
symbolic link may only go up from its own folder and then down: such a chain cannot leave.
"""

import bz2
import errno
import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from trackside.errors import ArchiveError
from trackside.toolkit import log

MOST_MEMBERS = 200_000
MOST_BYTES = 16 * 1024**3
_DEEPEST = 64
# tarfile reads a header whole, as large as it claims to be; file content goes in pieces.
_LONGEST_READ = 1024 * 1024

_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


def is_archive(path: str) -> bool:
    try:
        with _opened(path):
            return True
    except ArchiveError:
        return False


def extract(path: str, folder: str) -> None:
    """Extract a tar archive of any usual compression into an empty folder.

    Members that would leave the folder are renamed or skipped with a warning. A damaged archive,
    or one beyond the limits, raises ArchiveError; what was written until then is the caller's
    to remove.
    """
    writer = _Writer(path, folder)
    with _opened(path) as archive:
        try:
            for member in archive:
                writer.add(archive, member)
            writer.make_links()
        except OSError as refused:
            if refused.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ArchiveError(f"{path!r} cannot be extracted: {refused}.") from refused
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as damaged:
            raise ArchiveError(f"{path!r} is damaged: {damaged}. Pack it again.") from damaged


class _Writer:
    def __init__(self, path: str, folder: str) -> None:
        self._path = path
        self._folder = folder
        self._num_members = 0
        self._size_bytes = 0
        self._links: dict[str, str] = {}

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._count(member)
        name = self._inside(member.name)
        if not name:
            return
        if not self._passes_data_filter(member, name):
            return
        if member.isdir():
            self._make_folder(name)
        elif member.isreg():
            content = archive.extractfile(member)
            assert content is not None
            self._write(name, content, member)
        elif member.issym():
            self._remember_link(name, member.linkname)
        elif member.islnk():
            self._link_hard(name, self._inside(member.linkname))
        else:
            log.warning(f"{member.name!r} of the source is a device or a pipe and is skipped.")

    def make_links(self) -> None:
        # All their folders first: otherwise a link could become the parent of another, and "up
        # from its own folder" would start somewhere else.
        for name in self._links:
            self._make_folder(os.path.dirname(name))
        for name, target in self._links.items():
            path = os.path.join(self._folder, name)
            if os.path.lexists(path):
                log.warning(f"Link {name!r} of the source is skipped: something has its name.")
            else:
                os.symlink(target, path)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._num_members += 1
        self._size_bytes += max(0, member.size)
        if self._num_members > MOST_MEMBERS or self._size_bytes > MOST_BYTES:
            raise ArchiveError(
                f"{self._path!r} is too large to be a source: the limits are {MOST_MEMBERS:,} "
                f"files and {MOST_BYTES:,} bytes. Give data as a channel instead."
            )

    def _inside(self, name: str) -> str:
        """The name below the folder; '' when nothing is left of it."""
        parts = name.replace("\\", "/").split("/")
        if len(parts[0]) == 2 and parts[0][1] == ":":
            parts[0] = ""
        kept = [part for part in parts if part not in ("", ".", "..")]
        if len(kept) > _DEEPEST:
            raise ArchiveError(f"{self._path!r} nests {len(kept)} folders; {_DEEPEST} are allowed.")
        result = "/".join(kept)
        if result != name.removeprefix("./").rstrip("/") and name not in (".", "./"):
            log.warning(f"{name!r} of the source would leave it; it becomes {result!r}.")
        return result

    def _passes_data_filter(self, member: tarfile.TarInfo, name: str) -> bool:
        """Python's own opinion as well, where it has one."""
        data_filter = getattr(tarfile, "data_filter", None)
        if data_filter is None or not (member.issym() or member.islnk()):
            return True
        try:
            data_filter(member.replace(name=name, deep=False), self._folder)
        except tarfile.TarError as refused:
            log.warning(f"{member.name!r} of the source is skipped: {refused}.")
            return False
        return True

    def _make_folder(self, name: str) -> None:
        os.makedirs(os.path.join(self._folder, name), mode=0o755, exist_ok=True)

    def _write(self, name: str, content: IO[bytes], member: tarfile.TarInfo) -> None:
        path = os.path.join(self._folder, name)
        self._make_folder(os.path.dirname(name))
        if os.path.lexists(path):
            os.unlink(path)
        # No set-id bits, nothing for others to write, always ours to read.
        mode = 0o700 | member.mode & 0o055 if member.mode & 0o100 else 0o600 | member.mode & 0o044
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:
            shutil.copyfileobj(content, file, 256 * 1024)
        os.utime(path, (member.mtime, member.mtime))

    def _remember_link(self, name: str, target: str) -> None:
        shown = os.path.normpath(target)
        depth = name.count("/")
        num_up = len([part for part in shown.split("/") if part == ".."])
        if os.path.isabs(shown) or num_up > depth:
            log.warning(f"Link {name!r} of the source is skipped: {target!r} is outside.")
        else:
            self._links[name] = shown

    def _link_hard(self, name: str, target: str) -> None:
        source, path = os.path.join(self._folder, target), os.path.join(self._folder, name)
        if not target or not os.path.isfile(source):
            log.warning(f"Link {name!r} of the source is skipped: {target!r} is not in it.")
            return
        self._make_folder(os.path.dirname(name))
        if os.path.lexists(path) and not os.path.samefile(source, path):
            os.unlink(path)
        if not os.path.lexists(path):
            os.link(source, path)


class _Bounded:
    """A file that refuses absurd reads, so that a header of gigabytes ends in an error."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError(f"it wants {size:,} bytes read at once")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextmanager
def _opened(path: str) -> Iterator[tarfile.TarFile]:
    with open(path, "rb") as file:
        magic = file.read(8)
    opener = next((opener for start, opener in _OPENERS if magic.startswith(start)), open)
    with cast(IO[bytes], opener(path, "rb")) as file:
        try:
            archive = tarfile.TarFile(fileobj=cast(IO[bytes], _Bounded(file)))
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as wrong:
            raise ArchiveError(f"{path!r} is not a tar archive: {wrong}.") from wrong
        with archive:
            yield archive
