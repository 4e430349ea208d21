"""Folders below a root, opened name by name without following links.

A user who can write to a served folder could otherwise redirect us out of it by a link, also
between a check of the path and its use. So a folder is opened once, and its files are accessed
relative to it.
"""

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC
_BY_DESCRIPTOR = "/proc/self/fd"
_HAS_DESCRIPTORS = os.path.isdir(_BY_DESCRIPTOR)
_IN_THE_WAY = (errno.ELOOP, errno.ENXIO)
"""A link, a socket."""
_FOLDER_MODE = 0o700

NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors for a file that does not exist, or that we do not read."""


class Folder:
    """An open one. To be closed, also by leaving its block."""

    __slots__ = ("descriptor", "where")

    def __init__(self, descriptor: int, where: str) -> None:
        self.descriptor = descriptor
        self.where = where
        """The path by which it was opened; another folder may be there by now."""

    @property
    def path(self) -> str:
        """Valid while it is open; where the system supports it, for this very folder, even if
        renamed."""
        return f"{_BY_DESCRIPTOR}/{self.descriptor}" if _HAS_DESCRIPTORS else self.where

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A file in it. For a link FileNotFoundError; NotADirectoryError if it may be made."""
        try:
            return os.open(name, flags | _FILE, mode, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno not in _IN_THE_WAY:
                raise
            code = errno.ENOTDIR if flags & os.O_CREAT else errno.ENOENT
            raise OSError(code, "a link is not followed", name) from None

    def stat(self, name: str) -> os.stat_result:
        """Of the link itself, if it is one."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_folder(root: str, names: Sequence[str] = (), *, make: bool = False) -> Folder:
    """NotADirectoryError where a link or a file is in the way, the root included.

    `make` makes what is missing below the root, and syncs it.
    """
    descriptor = _entered(root, None)
    for name in names:
        try:
            try:
                inner = _entered(name, descriptor)
            except FileNotFoundError:
                if not make:
                    raise
                inner = _made(name, descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return Folder(descriptor, os.path.join(root, *names))


def open_file(root: str, names: Sequence[str], flags: int) -> int:
    """One of `NO_FILE` where there is none, or a link is in the way."""
    with open_folder(root, names[:-1]) as folder:
        return folder.open(names[-1], flags)


def _entered(name: str, within: int | None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=within)
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise NotADirectoryError(errno.ENOTDIR, "a link is not followed", name) from None
        raise


def _made(name: str, within: int) -> int:
    with suppress(FileExistsError):  # by another request
        os.mkdir(name, _FOLDER_MODE, dir_fd=within)
        os.fsync(within)
    return _entered(name, within)
