"""One page of a bucket's keys: in byte order, folded at a delimiter, from anywhere on.

Holds the names of one branch of folders at a time, and never looks below a common prefix beyond
learning that it holds an object.
"""

import heapq
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.folder_names import FolderNames
from trackside.api.s3.record import read_record
from trackside.storage.folder import HIDDEN
from trackside.storage.partial_file import is_temporary

_HIDDEN = os.fsencode(HIDDEN)


@dataclass(frozen=True, slots=True)
class Question:
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    """Only what comes later; a whole common prefix counts as seen with all that is below."""
    most: int = 1000


@dataclass(frozen=True, slots=True)
class Page:
    objects: list[ObjectInfo]
    prefixes: list[str]
    next: str | None
    """What to go on after; None on the last page."""


def list_page(bucket: Bucket, question: Question, names: FolderNames | None = None) -> Page:
    """`names` are kept between the pages of one listing."""
    objects: list[ObjectInfo] = []
    prefixes: list[str] = []
    last = ""
    if question.most == 0:
        return Page([], [], None)
    for found in _Listing(bucket, question, names or FolderNames()).items():
        if len(objects) + len(prefixes) == question.most:
            return Page(objects, prefixes, last)
        if isinstance(found, str):
            prefixes.append(found)
            last = found
        else:
            objects.append(found)
            last = found.key
    return Page(objects, prefixes, None)


_Item = tuple[bytes, str | None, bool]
"""A key's bytes, where its file lies (None: among the odd ones), whether it is a whole folder."""
_Identity = tuple[int, int]


class _Listing:
    def __init__(self, bucket: Bucket, question: Question, names: FolderNames) -> None:
        self._bucket = bucket
        self._folder_names = names
        self._prefix = os.fsencode(question.prefix)
        self._delimiter = os.fsencode(question.delimiter)
        self._after = os.fsencode(question.after)
        self._folded: bytes | None = None
        """The latest common prefix: nothing that starts with it is wanted any more."""
        if self._fold(self._after) == self._after:
            self._folded = self._after

    def items(self) -> Iterator[ObjectInfo | str]:
        before: bytes | None = None
        for key, path, is_folder in heapq.merge(self._plain(), self._odd(), key=lambda i: i[0]):
            if not self._is_wanted(key) and not (is_folder and self._may_hold(key)):
                continue
            folded = self._fold(key)
            if folded:
                self._folded = folded
                yield os.fsdecode(folded)
            elif key != before and (info := self._info(key, path)) is not None:
                before = key
                yield info

    def _fold(self, key: bytes) -> bytes | None:
        """The common prefix that this key is part of."""
        if not self._delimiter or not key.startswith(self._prefix):
            return None
        end = key.find(self._delimiter, len(self._prefix))
        return key[: end + len(self._delimiter)] if end >= 0 else None

    def _is_wanted(self, key: bytes) -> bool:
        if self._folded is not None and key.startswith(self._folded):
            return False
        return key > self._after and key.startswith(self._prefix)

    def _may_hold(self, folder: bytes) -> bool:
        """Whether any key below this folder, which ends in a slash, can be wanted."""
        if self._folded is not None and folder.startswith(self._folded):
            return False
        shorter = min(len(folder), len(self._prefix))
        fits = folder[:shorter] == self._prefix[:shorter]
        return fits and (folder > self._after or self._after.startswith(folder))

    def _odd(self) -> Iterator[_Item]:
        for key in self._bucket.odd():
            yield key, None, False

    def _plain(self) -> Iterator[_Item]:
        folder, slash, _ = self._prefix.rpartition(b"/")
        if b"\0" in folder or any(
            name in (b"", b".", b"..") for name in folder.split(b"/") if slash
        ):
            return
        if folder == _HIDDEN or folder.startswith(_HIDDEN + b"/"):
            return
        path = os.path.join(self._bucket.root, os.fsdecode(folder))
        yield from self._walk(path, folder + slash, ())

    def _walk(self, path: str, above: bytes, within: tuple[_Identity, ...]) -> Iterator[_Item]:
        """Links to folders are followed, except back into one that we are `within`."""
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino)
            if identity in within:
                return
            for key, name, is_folder in self._names(path, above):
                inner = os.path.join(path, name)
                if not is_folder:
                    yield key, inner, False
                elif not self._may_hold(key):
                    continue
                elif self._fold(key) == key and key > self._after:
                    if _holds_object(inner, (*within, identity)):
                        yield key, inner, True
                else:
                    yield from self._walk(inner, key, (*within, identity))

    def _names(self, path: str, above: bytes) -> Iterator[tuple[bytes, str, bool]]:
        """Those that may be wanted, or hold what is."""
        for own, name, is_folder in self._folder_names.read(path, self._first_in(above)):
            key = above + own
            if key in (_HIDDEN, _HIDDEN + b"/"):
                continue
            if self._may_hold(key) if is_folder else self._is_wanted(key):
                yield key, name, is_folder

    def _first_in(self, above: bytes) -> bytes:
        """The first name in this folder that is not before what was listed last."""
        if not self._after.startswith(above):
            return b""
        name, slash, _ = self._after[len(above) :].partition(b"/")
        return name + slash

    def _info(self, key: bytes, path: str | None) -> ObjectInfo | None:
        """None for what is gone by now, a dangling link, a socket."""
        named = os.fsdecode(key)
        if path is None:
            return self._bucket.find(named)
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                record = read_record(path, status, named, self._bucket.records)
                return ObjectInfo(named, status.st_size, status.st_mtime, record)
        return None


def _holds_object(path: str, within: tuple[_Identity, ...]) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in within:
            return False
        folders = []
        with os.scandir(path) as scan:
            for item in scan:
                if item.is_dir():
                    folders.append(item.path)
                elif item.is_file() and not is_temporary(item.name):
                    return True
        return any(_holds_object(each, (*within, identity)) for each in folders)
    return False
