"""The local side of downloads: existing files, small files, space for large ones."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from trackside.errors import DiskFull, StorageError
from trackside.storage.partial_file import PartialFile, sweep, write_whole
from trackside.storage.store import Entry

_FRESH_SECONDS = 2.0


class DownloadTarget:
    """For one download. Lists each folder once, so that a small file costs only its write."""

    def __init__(self) -> None:
        self._was_empty: dict[str, bool] = {}

    def holds(self, entry: Entry, path: str) -> bool:
        """Size and time of a finished download agree with the listing's."""
        folder = os.path.dirname(path)
        was_empty = self._was_empty.get(folder)
        if was_empty is None:
            was_empty = self._was_empty[folder] = sweep(folder)
        return not was_empty and _is_same(entry, path)

    def write(self, entry: Entry, path: str, data: bytes) -> None:
        try:
            write_whole(path, data, _file_time(entry))
        except OSError as error:
            raise _unwritable(path, error) from error

    def begin(self, path: str, size_bytes: int) -> PartialFile:
        """For a large file. Raises before fetching what does not fit."""
        with writing_named(path):
            file = PartialFile(path)
        space = os.statvfs(file.folder or ".")
        free_bytes = space.f_bavail * space.f_frsize
        if free_bytes < size_bytes:
            file.discard()
            raise DiskFull(
                f"{path!r} needs {size_bytes} bytes of space and its disk has {free_bytes} left. "
                "Free some, or use a folder on another disk."
            )
        return file

    def publish(self, entry: Entry, file: PartialFile) -> None:
        file.publish(durable=False, modified_ns=_file_time(entry))


@contextmanager
def writing_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"{path!r} cannot be written: {error.strerror}. Check what is there and its mode."
    )


def _is_same(entry: Entry, path: str) -> bool:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == entry.size_bytes
        and status.st_mtime_ns == entry.modified_ns
    )


def _file_time(entry: Entry) -> int | None:
    # Stores have whole seconds. An object that was only just written may be replaced within the
    # same one, so its copy keeps its own time and is not taken for the newer version.
    is_settled = time.time() - entry.modified > _FRESH_SECONDS
    return entry.modified_ns if is_settled else None
