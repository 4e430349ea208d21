"""Access to a folder that a script writes to, for programs that may read more than the script.

A job that runs as another user could otherwise use a link to make its supervisor read or write a
file that the job has no access to. Here every path is opened one name at a time, from a folder that
only we write to, and no link is followed. All access below /opt/ml goes through here.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_PATH_BYTES = 4096
"""As the system's limit for paths: a script may nest folders without end."""
_LED_AWAY = (errno.ELOOP, errno.ENOTDIR)


class NoPlainFile(PermissionError):
    """Not a regular file but a FIFO, a folder or, with the number ELOOP, a link."""


class ScriptFolder:
    """Methods take paths below it, such as "a/b.json"; empty is the folder itself.

    A link in the path is a `NotADirectoryError`, one instead of a file `NoPlainFile`. In a folder
    of another user, a file that is neither that user's nor ours is a `PermissionError`.
    """

    __slots__ = ("_owner", "_within", "path")

    def __init__(
        self, path: str | Path, *, within: Path | None = None, owner: int | None = None
    ) -> None:
        """`within` is a folder above it that only we write to; without it the path itself is
        trusted, and may be a link. Then its content belongs to `owner`, or to us.
        """
        self.path = Path(path)
        self._within = within
        self._owner = owner

    def __truediv__(self, below: str) -> "ScriptFolder":
        return ScriptFolder(self.path / below, within=self._within, owner=self._owner)

    @classmethod
    def of(cls, folder: "str | Path | ScriptFolder") -> "ScriptFolder":
        return folder if isinstance(folder, ScriptFolder) else cls(folder)

    @property
    def is_of_another(self) -> bool:
        """Whether its content belongs to another user than ours."""
        return self._owner is not None

    def is_dir(self) -> bool:
        try:
            with self.opened():
                return True
        except OSError:
            return False

    @contextmanager
    def opened(self, below: str = "", *, make: bool = False) -> Iterator[int]:
        """A folder's descriptor; `make` creates missing folders, for their owner."""
        descriptor = self._open_folder(below, make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def entries(self, below: str = "") -> Iterator[list["os.DirEntry[str]"]]:
        """A folder's entries by name; each can be inspected inside the block only."""
        with self.opened(below) as descriptor, os.scandir(descriptor) as found:
            yield list(found)

    def open(self, below: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
        """A regular file's descriptor, which the caller closes. It never blocks, as on a FIFO."""
        folder, _, name = below.rpartition("/")
        with self.opened(folder) as descriptor:
            try:
                file = os.open(name, flags | _FILE, mode, dir_fd=descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a FIFO without a reader
                    raise self._no_plain_file(below, error.errno) from None
                raise
        try:
            self._check(file, below)
        except BaseException:
            os.close(file)
            raise
        return file

    def lstat(self, below: str) -> os.stat_result:
        folder, _, name = below.rpartition("/")
        with self.opened(folder) as descriptor:
            return os.stat(name, dir_fd=descriptor, follow_symlinks=False)

    def read(self, below: str, most_bytes: int) -> bytes:
        """The beginning of a file."""
        with open(self.open(below), "rb") as file:
            return file.read(most_bytes)

    def write(self, below: str, data: bytes) -> None:
        """Replace the file with this name; the folder exists already."""
        folder, _, name = below.rpartition("/")
        temporary = f".{name}.{os.getpid()}.part"
        with self.opened(folder) as descriptor:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=descriptor)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            with open(os.open(temporary, flags, 0o644, dir_fd=descriptor), "wb") as file:
                self._own(file.fileno())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)

    def take(self, file: Path, below: str) -> None:
        """Move a file of ours, on the same disk, to this name; folders are created."""
        folder, _, name = below.rpartition("/")
        with self.opened(folder, make=True) as descriptor:
            os.rename(file, name, dst_dir_fd=descriptor)

    def unlink(self, below: str) -> None:
        folder, _, name = below.rpartition("/")
        with self.opened(folder) as descriptor:
            os.unlink(name, dir_fd=descriptor)

    def remove_tree(self, below: str) -> None:
        """With its content, as far as possible; a missing folder is no error."""
        folder, _, name = below.rpartition("/")
        with suppress(OSError), self.opened(folder) as descriptor:
            shutil.rmtree(name, ignore_errors=True, dir_fd=descriptor)

    def _open_folder(self, below: str, make: bool) -> int:
        path = self.path / below if below else self.path
        if len(os.fsencode(path)) >= _MOST_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
        start = self.path if self._within is None else self._within
        if make and self._within is None:
            start.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(start, _FOLDER)
        try:
            for name in path.relative_to(start).parts:
                inner = self._enter(descriptor, name, make)
                os.close(descriptor)
                descriptor = inner
        except OSError as error:
            os.close(descriptor)
            if error.errno in _LED_AWAY:
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)
                ) from None
            raise type(error)(error.errno, error.strerror, str(path)) from None
        return descriptor

    def _enter(self, above: int, name: str, make: bool) -> int:
        try:
            return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=above)
        made = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        self._own(made)
        return made

    def _own(self, descriptor: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, self._owner, -1)

    def _check(self, file: int, below: str) -> None:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise self._no_plain_file(below, errno.EPERM)
        if self._owner in (None, status.st_uid):
            return
        # Ours are those that we put there; one with a second hard link may be a trick.
        if status.st_uid != os.geteuid() or status.st_nlink > 1:
            why = f"It belongs to user {status.st_uid}, and is left alone"
            raise PermissionError(errno.EPERM, why, str(self.path / below))

    def _no_plain_file(self, below: str, number: int) -> NoPlainFile:
        return NoPlainFile(number, "It is no plain file", str(self.path / below))
