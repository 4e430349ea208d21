"""One bucket: a folder whose files are the objects, as `storage/folder.py` reads and writes them.

Keys that no plain file can stand for ('a' beside 'a/b', 'a/', 'a//b', '..', very long ones) are
files of the hidden folder, named by the key in percent-encoding or by its hash.
"""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote_to_bytes

from trackside.api.s3.errors import s3_error
from trackside.api.s3.record import ObjectRecord, drop_record, read_record, write_record
from trackside.storage.folder import HIDDEN, FolderStore, give_name
from trackside.storage.partial_file import PartialFile, is_temporary, sweep

_NAME_MOST_BYTES = 255
_NOT_PLAIN = re.compile(r"[\x00-\x1f\x7f]|(?:\A|/)\.{0,2}(?:/|\Z)")
_HASHED = "%hash-"
"""No percent-encoding starts like this."""
_LOCKS = 256
_SWEPT_MOST = 10_000
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO in a user's folder must not block


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
        self.hidden = os.path.join(root, HIDDEN)
        self.odd_keys = os.path.join(self.hidden, "keys")
        self.records = os.path.join(self.hidden, "records")
        self._store = FolderStore(Path(root))
        self._swept: set[str] = set()

    def open(self, key: str) -> OpenObject:
        """NoSuchKey when there is none."""
        for path in self.paths(key):
            try:
                descriptor = os.open(path, _READING)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            try:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode):
                    record = read_record(descriptor, status, key, self.records)
                    info = ObjectInfo(key, status.st_size, status.st_mtime, record)
                    return OpenObject(descriptor, info)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise s3_error("NoSuchKey")

    def find(self, key: str) -> ObjectInfo | None:
        for path in self.paths(key):
            with suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(path)
                if stat.S_ISREG(status.st_mode):
                    record = read_record(path, status, key, self.records)
                    return ObjectInfo(key, status.st_size, status.st_mtime, record)
        return None

    def create(self, key: str) -> "NewObject":
        """Where its bytes can be written to; it is seen by nobody until it is published."""
        plain = self.plain_path(key)
        if plain is not None and not _is_folder(plain):
            with suppress(NotADirectoryError, FileExistsError):
                self._sweep_once(os.path.dirname(plain))
                return NewObject(self, key, PartialFile(plain))
        return NewObject(self, key, PartialFile(self.odd_path(key)))

    def delete(self, key: str) -> None:
        """What is not there is deleted already."""
        with self.locked(key):
            plain = self.plain_path(key)
            for path in self.paths(key):
                with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    status = os.stat(path)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    os.unlink(path)
                    drop_record(status, self.records)
                    if path == plain:
                        self.prune(path)

    def change_record(self, key: str, change: Callable[[ObjectRecord], ObjectRecord]) -> ObjectInfo:
        """In place: the bytes and their time stay."""
        with self.locked(key, alone=True), self.open(key) as found:
            record = change(found.info.record)
            write_record(found.descriptor, record, self.records)
            return replace(found.info, record=record)

    def paths(self, key: str) -> Iterator[str]:
        """Where the object may lie; a plain file is the newer one, should there be both."""
        plain = self.plain_path(key)
        if plain is not None:
            yield plain
        yield self.odd_path(key)

    def plain_path(self, key: str) -> str | None:
        if _NOT_PLAIN.search(key) is not None or key.partition("/")[0] == HIDDEN:
            return None
        names = key.split("/")
        if is_temporary(names[-1]):
            return None
        if len(key) > _NAME_MOST_BYTES // 4 and any(
            len(os.fsencode(name)) > _NAME_MOST_BYTES for name in names
        ):
            return None
        return f"{self.root}/{key}"

    def odd_path(self, key: str) -> str:
        return os.path.join(self.odd_keys, _odd_name(key))

    def odd(self) -> list[bytes]:
        """The keys of the hidden folder, as bytes in order."""
        try:
            names = os.listdir(self.odd_keys)
        except FileNotFoundError:
            return []
        return sorted(key for name in names if (key := self._odd_key(name)) is not None)

    @contextmanager
    def locked(self, key: str, *, alone: bool = False) -> Iterator[None]:
        """Held shared by every writer of the key, alone by one who first looks and then writes."""
        number = hashlib.blake2b(os.fsencode(key), digest_size=2).digest()[0] % _LOCKS
        path = os.path.join(self.hidden, "locks", f"{number:02x}")
        descriptor = _made(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def prune(self, path: str) -> None:
        """Remove folders above that became empty."""
        self._store.prune(os.path.dirname(path))

    def _sweep_once(self, folder: str) -> None:
        if folder not in self._swept:
            if len(self._swept) > _SWEPT_MOST:
                self._swept.clear()
            self._swept.add(folder)
            sweep(folder)

    def _odd_key(self, name: str) -> bytes | None:
        if is_temporary(name):
            return None
        if not name.startswith(_HASHED):
            return unquote_to_bytes(name)
        path = os.path.join(self.odd_keys, name)
        with suppress(FileNotFoundError):
            return os.fsencode(read_record(path, os.stat(path), name, self.records).key) or None
        return None


class NewObject:
    """Leaving the block without `publish` leaves nothing."""

    def __init__(self, bucket: Bucket, key: str, file: PartialFile) -> None:
        self._bucket = bucket
        self._key = key
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
        if os.path.basename(self.file.target).startswith(_HASHED):
            record = replace(record, key=self._key)
        status = write_record(self.file.descriptor, record, self._bucket.records)
        self._info = ObjectInfo(self._key, status.st_size, status.st_mtime, record)

    def publish(self, allowed: Callable[[ObjectInfo | None], None] | None = None) -> ObjectInfo:
        """`allowed` looks at the object that would be replaced, and raises to keep it."""
        assert self._info is not None
        self.file.sync()  # before the lock, which others may be waiting for
        with self._bucket.locked(self._key, alone=allowed is not None):
            if allowed is not None:
                allowed(self._bucket.find(self._key))
            replaced = self._replaced()
            try:
                give_name(self.file)
            except (IsADirectoryError, NotADirectoryError):
                raise s3_error("OperationAborted") from None
            self._forget(replaced)
        self.file.sync_folders()
        return self._info

    def discard(self) -> None:
        if self.file.descriptor >= 0:  # not published
            self.file.discard()
            self._bucket.prune(self.file.target)

    def _replaced(self) -> list[tuple[str, os.stat_result]]:
        """Files whose time is over; looked for only where anything can be left of them."""
        bucket = self._bucket
        if not os.access(bucket.records, os.F_OK) and not os.access(bucket.odd_keys, os.F_OK):
            return []
        found = [(path, _status(path)) for path in bucket.paths(self._key)]
        return [(path, status) for path, status in found if status is not None]

    def _forget(self, replaced: list[tuple[str, os.stat_result]]) -> None:
        for path, status in replaced:
            drop_record(status, self._bucket.records)
            if path != self.file.target and path == self._bucket.odd_path(self._key):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _odd_name(key: str) -> str:
    name = quote(os.fsencode(key), safe="")
    if name in (".", "..") or is_temporary(name):
        name = name.replace(".", "%2E")
    if len(name) <= _NAME_MOST_BYTES:
        return name
    return f"{_HASHED}{hashlib.sha256(os.fsencode(key)).hexdigest()}"


def _is_folder(path: str) -> bool:
    """Whether it is one that holds anything; an empty one is removed."""
    if not os.access(f"{path}/", os.F_OK):
        return False
    try:
        os.rmdir(path)
    except (NotADirectoryError, FileNotFoundError):
        return False
    except OSError:
        return os.path.isdir(path)
    return False


def _made(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
