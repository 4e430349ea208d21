"""A store that is a folder on this machine: embedded buckets, `file://` and plain paths.

Objects are plain files, so anything else can read them. Imports no object-store library.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trackside.errors import (
    AccessRefused,
    DamagedTransfer,
    InvalidKey,
    ObjectChanged,
    ObjectNotFound,
    StorageError,
)
from trackside.files.permissions import PRIVATE, user_umask
from trackside.storage.key_order import KeyRange, names_in_key_order
from trackside.storage.partial_file import PartialFile, is_temporary, sweep
from trackside.storage.store import NOTHING, Entry, Store, check_key

HIDDEN = ".trackside"
"""A top-level folder that is not part of the store: the S3 server's metadata."""

_PIECE_BYTES = 1 << 20
_HIDDEN_NAME = os.fsencode(HIDDEN)
_UNUSABLE_NAME = (errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ)


class FolderStore(Store):
    """Keys are paths below `root`, which is created by the first `put`.

    A put is atomic and durable: written under a hidden temporary name, synced, renamed, and the
    folder synced. Two keys of which one is a folder of the other cannot both exist here.
    """

    def __init__(self, root: Path, *, is_private: bool = False) -> None:
        """If private, objects are readable by their owner only; else the user's umask decides, also
        in our processes with another umask.
        """
        self.root = root
        self._is_private = is_private
        self._swept: set[str] = set()

    def __repr__(self) -> str:
        return f"FolderStore({str(self.root)!r})"

    most_conditional_bytes = None

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        path = self._path(key)
        with self._errors_named(key, writing=True):
            self._sweep_once(os.path.dirname(path))
            umask = PRIVATE if self._is_private else user_umask()
            file = PartialFile(path, umask=umask)
        with file:
            if isinstance(data, Path):
                _copy(data, file)
            else:
                self._write(file, key, (data,) if isinstance(data, bytes) else data)
            with self._errors_named(key, writing=True):
                status = file.stat()
                file.sync()
                with names_locked(file.folder, alone=replaces is not None):
                    self._check_replaced(key, path, replaces)
                    give_name(file)
                file.sync_folders()
        return _entry(key, status)

    def check_writable(self, key: str) -> None:
        """Raise what a `put` would, as far as that is known without writing anything."""
        folder = os.path.dirname(self._path(key))
        with self._errors_named(key, writing=True):
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            if not os.path.isdir(folder):
                raise NotADirectoryError
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)

    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        return b"".join(self.read(key, start, end, etag=etag))

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        with self._errors_named(key), _opened(self._path(key)) as descriptor:
            entry = _entry(key, os.fstat(descriptor))
            if etag is not None and entry.etag != etag:
                raise ObjectChanged(f"{self._shown(key)} was replaced. List and read it again.")
            end = entry.size_bytes if end is None else end
            while start < end:
                piece = os.pread(descriptor, min(end - start, _PIECE_BYTES), start)
                if not piece:
                    return
                start += len(piece)
                yield piece

    def stat(self, key: str) -> Entry:
        with self._errors_named(key):
            status = os.stat(self._path(key))
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError
            return _entry(key, status)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        folder, slash, _ = prefix.rpartition("/")
        if "\0" in prefix or any(name in ("", ".", "..") for name in folder.split("/") if slash):
            return  # no key can start like this
        if prefix.startswith(f"{HIDDEN}/"):
            return
        wanted = KeyRange(os.fsencode(prefix), os.fsencode(after))
        with self._errors_named(prefix):
            yield from _walk(os.path.join(self.root, folder), folder + slash, wanted)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self._path(key)
            with self._errors_named(key, writing=True):
                try:
                    with names_locked(os.path.dirname(path)):
                        os.unlink(path)
                except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    continue
                self.prune(os.path.dirname(path))

    def _path(self, key: str) -> str:
        check_key(key)
        if is_temporary(key.rpartition("/")[2]):
            raise InvalidKey(
                f"Key {key!r} is a name reserved for unfinished files. Choose another."
            )
        if key.partition("/")[0] == HIDDEN:
            raise InvalidKey(f"Key {key!r} is in a folder reserved for the server. Choose another.")
        return os.path.join(self.root, key)

    def _check_replaced(self, key: str, path: str, replaces: str | None) -> None:
        if replaces is None:
            return
        status = _regular(path)
        if (NOTHING if status is None else version_of(status)) != replaces:
            raise ObjectChanged(f"{self._shown(key)} was changed by another writer. Read it again.")

    def _shown(self, key: str) -> str:
        return repr(os.path.join(self.root, key))

    def _sweep_once(self, folder: str) -> None:
        if folder not in self._swept:
            self._swept.add(folder)
            sweep(folder)

    def _write(self, file: PartialFile, key: str, chunks: Iterable[bytes]) -> None:
        offset = 0
        for chunk in chunks:  # errors of these are the caller's own and pass unchanged
            with self._errors_named(key, writing=True):
                file.write_at(chunk, offset)
            offset += len(chunk)

    def prune(self, folder: str) -> None:
        """Remove folders that became empty: they are not objects, and slow every listing."""
        root = os.fspath(self.root)
        with suppress(OSError):  # not empty, or gone already
            while len(folder) > len(root):
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    @contextmanager
    def _errors_named(self, key: str, *, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
            if not writing:
                raise ObjectNotFound(
                    f"{self._shown(key)} does not exist. Check the name."
                ) from None
            raise InvalidKey(
                f"{self._shown(key)} cannot be stored: one of its folders is a file, or it is a "
                "folder itself. A folder cannot hold both 'a' and 'a/b'; rename one of them."
            ) from error
        except FileNotFoundError as error:
            if writing:
                raise AccessRefused(
                    f"{self._shown(key)} cannot be stored: the system cannot create a folder there."
                ) from error
            raise ObjectNotFound(f"{self._shown(key)} does not exist. Check the name.") from None
        except PermissionError as error:
            named = error.filename or os.path.join(self.root, key)
            raise AccessRefused(
                f"The system refuses access to {str(named)!r}. Check its owner and mode."
            ) from error
        except OSError as error:
            kind = InvalidKey if error.errno in _UNUSABLE_NAME else StorageError
            raise kind(f"{self._shown(key)}: {error.strerror}.") from error


def version_of(status: os.stat_result) -> str:
    """Every put makes a new file: the inode distinguishes versions even within one clock tick."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


@contextmanager
def names_locked(folder: str, *, alone: bool = False) -> Iterator[None]:
    """Held shared by every writer of a folder's names, exclusively by one that checks before it
    writes. Does nothing on a disk without locks, or in a folder that we cannot read.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def give_name(file: PartialFile) -> None:
    """Also if folders without any object have the name."""
    try:
        file.give_name()
    except IsADirectoryError:
        _remove_empty_folders(file.target)
        file.give_name()


_Identity = tuple[int, int]


def _walk(
    path: str, above: str, wanted: KeyRange, within: tuple[_Identity, ...] = ()
) -> Iterator[Entry]:
    """Files below `path`, whose keys start with `above`; holds the names of one branch at a time.

    Links to folders are followed, except back into one that we are `within`: it would never end.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in within:
            return
        for name, is_folder in _names(path, above, wanted):
            inner = os.path.join(path, name)
            if is_folder:
                yield from _walk(inner, f"{above}{name}/", wanted, (*within, identity))
            elif (file := _regular(inner)) is not None:
                yield _entry(above + name, file)


def _regular(path: str) -> os.stat_result | None:
    """None for a file that is gone, a dangling link, or a socket."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.stat(path)
        return status if stat.S_ISREG(status.st_mode) else None
    return None


def _names(path: str, above: str, wanted: KeyRange) -> Iterator[tuple[str, bool]]:
    """Wanted names of one folder in key order, each with whether it is a folder."""
    start = os.fsencode(above)
    for part, name, is_folder in names_in_key_order(path, follow_links=True):
        key = start + part
        if key.rstrip(b"/") == _HIDDEN_NAME:
            continue
        if wanted.has_keys_below(key) if is_folder else wanted.has_key(key):
            yield name, is_folder


def _entry(key: str, status: os.stat_result) -> Entry:
    return Entry(key, status.st_size, version_of(status), status.st_mtime)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    # Without O_NONBLOCK, opening a FIFO in a user's folder would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(source: Path, file: PartialFile) -> None:
    try:
        with _opened(os.fspath(source)) as descriptor:
            size = os.fstat(descriptor).st_size
            copied = file.copy_from(descriptor, size)
    except (FileNotFoundError, NotADirectoryError):
        raise ObjectNotFound(f"{str(source)!r} does not exist.") from None
    except PermissionError as error:
        raise AccessRefused(f"The system refuses to read {str(source)!r}.") from error
    if copied != size:
        raise DamagedTransfer(
            f"{str(source)!r} shrank from {size} to {copied} bytes while it was stored. "
            "Store it again once nothing writes to it."
        )


def _remove_empty_folders(folder: str) -> None:
    """Remove a tree that holds nothing but folders; the system refuses to remove anything else."""
    with suppress(OSError):
        for path, _, _ in os.walk(folder, topdown=False):
            os.rmdir(path)
