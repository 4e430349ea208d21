"""One bucket: a folder whose files are the objects, as `storage/folder.py` reads and writes them.

Keys that cannot be a plain file ('a' beside 'a/b', 'a/', 'a//b', '..', very long ones) are files in
the hidden folder, see `object_paths`. Links are no objects and are not followed.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote_to_bytes

from trackside.api.s3.beneath import NO_FILE, Folder, open_file, open_folder
from trackside.api.s3.errors import s3_error
from trackside.api.s3.object_paths import (
    HASHED,
    ODD_KEYS,
    ObjectPath,
    encoded_path,
    plain_path,
    possible_paths,
)
from trackside.api.s3.record import (
    RECORDS,
    ObjectRecord,
    drop_record,
    read_record,
    write_record,
)
from trackside.files.permissions import PRIVATE
from trackside.storage.folder import HIDDEN, FolderStore, give_name, names_locked
from trackside.storage.key_order import Name
from trackside.storage.partial_file import PartialFile, is_temporary, sweep

_LOCKS = 256
_SWEPT_MOST = 10_000
_TRIES = 100
_READING = os.O_RDONLY | os.O_NONBLOCK  # a FIFO in a user's folder must not block
TIME_MOST = 253402300799.0
"""The end of the year 9999: a file may have any time, but a later one cannot be formatted."""

_LOCK_FOLDER = (HIDDEN, "locks")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size: int
    modified: float
    record: ObjectRecord

    @property
    def etag(self) -> str:
        return self.record.etag


class OpenObject:
    """One version of an object, whole, whatever happens to its name meanwhile."""

    __slots__ = ("descriptor", "info")

    def __init__(self, descriptor: int, info: ObjectInfo) -> None:
        self.descriptor = descriptor
        self.info = info

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Bucket:
    """Safe to use from several threads and processes."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.name = os.path.basename(root)
        self._store = FolderStore(Path(root))
        self._swept: set[ObjectPath] = set()

    def open(self, key: str) -> OpenObject:
        """NoSuchKey when there is none."""
        found = self._opened(key)
        if found is None:
            raise s3_error("NoSuchKey")
        return found

    def find(self, key: str) -> ObjectInfo | None:
        found = self._opened(key)
        if found is None:
            return None
        found.close()
        return found.info

    def info(self, key: str, folder: Folder, name: str) -> ObjectInfo | None:
        """Of a file there, which need not be opened; None for what is no file.

        Its record is read by its path, which takes half the time. One that was put there in between
        is used only if it is for this very file.
        """
        status = folder.stat(name)
        return self._info_of(key, status, f"{folder.where}/{name}")

    def create(self, key: str) -> "NewObject":
        """Where its bytes can be written to; it is not visible until it is published."""
        plain = plain_path(key)
        if plain is not None:
            with suppress(NotADirectoryError, IsADirectoryError, FileExistsError):
                return self._created(key, plain)
        return self._created(key, encoded_path(key))

    def delete(self, key: str) -> None:
        """A missing object is deleted already."""
        with self.locked(key):
            for path in possible_paths(key):
                with suppress(*NO_FILE), open_folder(self.root, path[:-1]) as folder:
                    status = folder.stat(path[-1])
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    os.unlink(path[-1], dir_fd=folder.descriptor)
                    drop_record(status, self.root)
                    if path[0] != HIDDEN:
                        self.prune(path)

    def change_record(self, key: str, change: Callable[[ObjectRecord], ObjectRecord]) -> ObjectInfo:
        """In place: the bytes and their time stay."""
        with self.locked(key, alone=True), self.open(key) as found:
            record = change(found.info.record)
            write_record(found.descriptor, record, self.root)
            return replace(found.info, record=record)

    def has_odd(self) -> bool:
        with suppress(*NO_FILE), open_folder(self.root, ODD_KEYS) as folder:
            return bool(self.odd_names(folder.descriptor))
        return False

    def odd_names(self, descriptor: int) -> list[Name]:
        """Of the open folder of keys that are not plain: in the order of the keys."""
        names = os.listdir(descriptor)
        keys = ((self._odd_key(name), name) for name in names)
        return sorted(Name(key, name, False) for key, name in keys if key is not None)

    @contextmanager
    def locked(self, key: str, *, alone: bool = False) -> Iterator[None]:
        """Held shared by every writer of the key, exclusively by one that checks before it
        writes."""
        number = hashlib.blake2b(os.fsencode(key), digest_size=2).digest()[0] % _LOCKS
        with open_folder(self.root, _LOCK_FOLDER, make=True) as folder:
            descriptor = folder.open(f"{number:02x}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def prune(self, path: ObjectPath) -> None:
        """Remove folders above that became empty."""
        self._store.prune(os.path.join(self.root, *path[:-1]))

    def status(self, path: ObjectPath) -> os.stat_result | None:
        """Of a file."""
        with suppress(*NO_FILE), open_folder(self.root, path[:-1]) as folder:
            found = folder.stat(path[-1])
            return found if stat.S_ISREG(found.st_mode) else None
        return None

    def has_sidecars(self) -> bool:
        """Whether an object may have data outside its own file."""
        folders = (os.path.join(self.root, *names) for names in (RECORDS, ODD_KEYS))
        return any(os.access(folder, os.F_OK) for folder in folders)

    def _opened(self, key: str) -> OpenObject | None:
        for path in possible_paths(key):
            try:
                descriptor = open_file(self.root, path, _READING)
            except NO_FILE:
                continue
            try:
                info = self._info_of(key, os.fstat(descriptor), descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            if info is not None:
                return OpenObject(descriptor, info)
            os.close(descriptor)
        return None

    def _info_of(self, key: str, status: os.stat_result, file: int | str) -> ObjectInfo | None:
        if not stat.S_ISREG(status.st_mode):
            return None
        record = read_record(file, status, key, self.root)
        return ObjectInfo(key, status.st_size, _time(status), record)

    def _created(self, key: str, path: ObjectPath) -> "NewObject":
        # A request that deletes the last object of a folder removes the folder, too, perhaps now.
        for _ in range(_TRIES):
            try:
                folder = open_folder(self.root, path[:-1], make=True)
            except FileNotFoundError:
                if os.path.isdir(self.root):
                    continue
                raise s3_error("NoSuchBucket") from None
            try:
                if _is_folder(folder, path[-1]):
                    raise IsADirectoryError
                file = PartialFile(os.path.join(folder.path, path[-1]), umask=PRIVATE)
                self._sweep_once(folder, path[:-1])
                return NewObject(self, key, path, folder, file)
            except FileNotFoundError:
                folder.close()
            except BaseException:
                folder.close()
                raise
        raise s3_error("OperationAborted")

    def _sweep_once(self, folder: Folder, names: ObjectPath) -> None:
        if names not in self._swept:
            if len(self._swept) > _SWEPT_MOST:
                self._swept.clear()
            self._swept.add(names)
            sweep(folder.path)

    def _odd_key(self, name: str) -> bytes | None:
        if is_temporary(name):
            return None
        if not name.startswith(HASHED):
            return unquote_to_bytes(name)
        with suppress(*NO_FILE), open_folder(self.root, ODD_KEYS) as folder:
            info = self.info("", folder, name)
            # It may contain any key, but it is found only under the path of that key.
            if info is not None and encoded_path(info.record.key)[-1] == name:
                return os.fsencode(info.record.key)
        return None


class NewObject:
    """Without `publish`, leaving the block discards it."""

    def __init__(
        self, bucket: Bucket, key: str, path: ObjectPath, folder: Folder, file: PartialFile
    ) -> None:
        self._bucket = bucket
        self._key = key
        self._path = path
        self._folder = folder
        self._info: ObjectInfo | None = None
        self.file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def describe(self, record: ObjectRecord) -> None:
        """After the last byte is written."""
        if self._path[-1].startswith(HASHED):
            record = replace(record, key=self._key)
        status = write_record(self.file.descriptor, record, self._bucket.root)
        self._info = ObjectInfo(self._key, status.st_size, _time(status), record)

    def publish(self, allowed: Callable[[ObjectInfo | None], None] | None = None) -> ObjectInfo:
        """`allowed` checks the object that would be replaced, and raises to keep it."""
        assert self._info is not None
        self.file.sync()  # before the lock, which others may be waiting for
        alone = allowed is not None
        with (
            self._bucket.locked(self._key, alone=alone),
            names_locked(self.file.folder, alone=alone),  # processes here that use no S3
        ):
            if allowed is not None:
                allowed(self._bucket.find(self._key))
            replaced = self._replaced()
            try:
                give_name(self.file)
            except NO_FILE:  # a folder of that name was made, or the written file was removed
                raise s3_error("OperationAborted") from None
            self._forget(replaced)
        self.file.sync_folders()
        return self._info

    def discard(self) -> None:
        """Always, at the end; a published object stays."""
        if self.file.descriptor >= 0:  # not published
            self.file.discard()
            self._bucket.prune(self._path)
        self._folder.close()

    def _replaced(self) -> list[tuple[ObjectPath, os.stat_result]]:
        """Replaced files; searched only where any can exist."""
        bucket = self._bucket
        if not bucket.has_sidecars():
            return []
        found = [(path, bucket.status(path)) for path in possible_paths(self._key)]
        return [(path, status) for path, status in found if status is not None]

    def _forget(self, replaced: list[tuple[ObjectPath, os.stat_result]]) -> None:
        for path, status in replaced:
            drop_record(status, self._bucket.root)
            if path != self._path and path[0] == HIDDEN:
                with suppress(*NO_FILE), open_folder(self._bucket.root, path[:-1]) as folder:
                    os.unlink(path[-1], dir_fd=folder.descriptor)


def _is_folder(folder: Folder, name: str) -> bool:
    """Whether it is one that holds anything; an empty one is removed."""
    if not os.access(f"{name}/", os.F_OK, dir_fd=folder.descriptor):
        return False
    try:
        os.rmdir(name, dir_fd=folder.descriptor)
    except (NotADirectoryError, FileNotFoundError):
        return False
    except OSError:
        return stat.S_ISDIR(folder.stat(name).st_mode)
    return False


def _time(status: os.stat_result) -> float:
    return min(max(status.st_mtime, 0.0), TIME_MOST)
