"""A file on this machine that appears under its name only when it is complete.

Used by folder stores (durable) and by downloads (not durable: they can be repeated). The next
writer to a folder removes what killed processes left there.
"""

import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from trackside.errors import DiskFull
from trackside.files.disk_space import is_full, is_read_only
from trackside.files.durable import sync_folder
from trackside.files.permissions import make_folder, open_file

_PREFIX = ".trackside-"
_SUFFIX = ".part"
_TOKEN = os.urandom(4).hex()  # pids repeat where machines or containers share a folder
_serial = itertools.count()
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_TRIES = 100


def is_temporary(name: str) -> bool:
    """Whether a file name is one that `PartialFile` writes under."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


@contextmanager
def disk_full_named(folder: str | Path) -> Iterator[None]:
    """Turn "no space left" and "read-only" into `DiskFull` with the folder and the way out."""
    try:
        yield
    except OSError as error:
        _raise_named(error, folder)


def write_whole(target: str, data: bytes, modified_ns: int | None) -> None:
    """A small file in the fewest steps; downloads create thousands of them a second."""
    folder = os.path.dirname(target)
    try:
        for _ in range(_TRIES):
            try:
                return _write_whole(target, _temporary_in(folder), data, modified_ns)
            except FileNotFoundError:  # no folder yet, or it was swept: it holds no lock
                os.makedirs(folder, exist_ok=True)
        return _write_whole(target, _temporary_in(folder), data, modified_ns)
    except OSError as error:
        _raise_named(error, folder)


def sweep(folder: str) -> bool:
    """Remove unfinished files of killed processes; returns whether nothing else is there.

    The system releases only a dead process's locks: a file that is being written stays.
    """
    is_empty = True
    try:
        with os.scandir(folder) as scan:
            for item in scan:
                is_empty &= is_temporary(item.name) and remove_if_abandoned(item.path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # write permission does not imply read permission
    return is_empty


class PartialFile:
    """Leaving the block without `publish` removes what was written.

    `write_at` may be called from several threads at once.
    """

    __slots__ = ("_descriptor", "_made", "_temporary", "_umask", "folder", "target")

    def __init__(self, target: str | Path, *, umask: int | None = None) -> None:
        """`umask` applies to the file and to folders created for it; None: the process's own."""
        self._umask = umask
        self.target = os.fspath(target)
        self.folder = os.path.dirname(self.target)
        self._temporary = ""
        self._made: list[str] = []
        with disk_full_named(self.folder):
            self._descriptor = self._open()

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def write_at(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            _raise_named(error, self.folder)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def copy_from(self, source: int, size_bytes: int) -> int:
        """Copy from an open file, inside the kernel if possible; returns the number of bytes."""
        with disk_full_named(self.folder):
            copied = _copy_in_kernel(source, self._descriptor, size_bytes)
            while copied < size_bytes:
                data = os.pread(source, min(1 << 20, size_bytes - copied), copied)
                if not data:
                    break
                copied += os.pwrite(self._descriptor, data, copied)
        return copied

    def adopt(self, path: str) -> bool:
        """Link another file's bytes without copying; its name stays until removed.

        False if the disk has no hard links, or the file is on another disk.
        """
        temporary = _temporary_in(self.folder)
        try:
            os.link(path, temporary)
        except OSError:
            return False
        self.discard()
        self._temporary = temporary
        self._descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        _is_locked(self._descriptor)
        return True

    def md5(self) -> str:
        import hashlib  # loads OpenSSL, which readers do not need

        hasher = hashlib.md5(usedforsecurity=False)
        offset = 0
        while data := os.pread(self._descriptor, 1 << 20, offset):
            hasher.update(data)
            offset += len(data)
        return hasher.hexdigest()

    def stat(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def publish(self, *, durable: bool, modified_ns: int | None = None) -> None:
        """Give the file its name, replacing an existing file. Survives a power cut."""
        with disk_full_named(self.folder):
            if modified_ns is not None:
                os.utime(self._descriptor, ns=(modified_ns, modified_ns))
            if durable:
                self.sync()
            self.give_name()
            if durable:
                self.sync_folders()

    # Its three steps, for callers that do something between them.

    def sync(self) -> None:
        with disk_full_named(self.folder):
            os.fsync(self._descriptor)

    def give_name(self) -> None:
        with disk_full_named(self.folder):
            os.rename(self._temporary, self.target)
            self._temporary = ""
            os.close(self._descriptor)
            self._descriptor = -1

    def sync_folders(self) -> None:
        """Folders in which the file, or a folder for it, is new."""
        for folder in (self.folder, *self._made):
            with suppress(FileNotFoundError):  # the file was removed meanwhile, and the folder
                sync_folder(folder)

    def discard(self) -> None:
        """Remove it. Nothing happens after `publish`, or when called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.unlink()

    def unlink(self) -> None:
        """Remove only the name: for callers that cannot know whether others are still writing."""
        temporary, self._temporary = self._temporary, ""
        if temporary:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def _open(self) -> int:
        # Deleting the last object of a folder removes the folder too, perhaps just now.
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return self._locked()
            self._make_folder()
        return self._locked()

    def _locked(self) -> int:
        """Repeats until one is ours: a `sweep` may find it before we hold the lock."""
        while True:
            self._temporary = _temporary_in(self.folder)
            descriptor = open_file(self._temporary, _FLAGS, self._umask)
            if _is_locked(descriptor) and os.fstat(descriptor).st_nlink > 0:
                return descriptor
            os.close(descriptor)

    def _make_folder(self) -> None:
        missing = self.folder
        while not os.path.isdir(missing):
            parent = os.path.dirname(missing)
            self._made.append(parent)
            if parent == missing:
                break
            missing = parent
        make_folder(self.folder, self._umask)


def _write_whole(target: str, temporary: str, data: bytes, modified_ns: int | None) -> None:
    descriptor = os.open(temporary, _FLAGS, 0o666)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
        if modified_ns is not None:
            os.utime(descriptor, ns=(modified_ns, modified_ns))
        os.rename(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def _temporary_in(folder: str) -> str:
    return os.path.join(folder, f"{_PREFIX}{_TOKEN}-{os.getpid()}-{next(_serial)}{_SUFFIX}")


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a disk without locks; no `sweep` gets one there either
    return True


def remove_if_abandoned(path: str) -> bool:
    """Whether it is gone; one that is being written stays."""
    with suppress(OSError):  # locked by its writer, or not ours to open
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
            return True
        finally:
            os.close(descriptor)
    return False


def _raise_named(error: OSError, folder: str | Path) -> NoReturn:
    if is_read_only(error):
        raise DiskFull(
            f"The disk of {str(folder)!r} is read-only. Make it writable, or use another folder."
        ) from error
    if not is_full(error):
        raise error
    raise DiskFull(
        f"No space left in {str(folder)!r}. Free some there, or use a folder on another disk."
    ) from error


def _copy_in_kernel(source: int, target: int, size_bytes: int) -> int:
    """As much as `copy_file_range` does: shared blocks on btrfs and XFS, else no user memory."""
    if not hasattr(os, "copy_file_range"):
        return 0
    copied = 0
    with suppress(OSError):  # another file system or kernel: the caller copies by hand
        while copied < size_bytes:
            done = os.copy_file_range(source, target, size_bytes - copied, copied, copied)
            if done == 0:
                break
            copied += done
    return copied
