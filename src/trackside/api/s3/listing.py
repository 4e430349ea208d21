"""One page of a bucket's keys: in byte order, folded at a delimiter, from anywhere on.

Holds the names of one branch of folders at a time, and never looks below a common prefix beyond
learning that it holds an object.
"""

import heapq
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from trackside.api.s3.beneath import NO_FILE, Folder, open_folder
from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.folder_names import FolderNames, Name
from trackside.api.s3.object_paths import Place
from trackside.api.s3.target import KEY_MOST_BYTES
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
    """`names` are kept from one page to the next."""
    objects: list[ObjectInfo] = []
    prefixes: list[str] = []
    last = ""
    if question.most == 0:
        return Page([], [], None)
    with closing(_Listing(bucket, question, names or FolderNames())) as listing:
        for found in listing.items():
            if len(objects) + len(prefixes) == question.most:
                return Page(objects, prefixes, last)
            if isinstance(found, str):
                prefixes.append(found)
                last = found
            else:
                objects.append(found)
                last = found.key
    return Page(objects, prefixes, None)


_Item = tuple[bytes, Place | None, bool]
"""A key's bytes, where its file lies (None: among the odd ones), whether it is a whole folder."""


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
        self._looked_into: tuple[Place, Folder] | None = None
        """The latest folder of a file: the next one is mostly there, too."""

    def close(self) -> None:
        if self._looked_into is not None:
            self._looked_into[1].close()
            self._looked_into = None

    def items(self) -> Iterator[ObjectInfo | str]:
        before: bytes | None = None
        for key, place, is_folder in heapq.merge(self._plain(), self._odd(), key=lambda i: i[0]):
            if not self._is_wanted(key) and not (is_folder and self._may_hold(key)):
                continue
            folded = self._fold(key)
            if folded:
                self._folded = folded
                yield os.fsdecode(folded)
            elif key != before and (info := self._info(key, place)) is not None:
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
        names = tuple(os.fsdecode(folder).split("/")) if slash else ()
        yield from self._walk(names, folder + slash)

    def _walk(self, within: Place, above: bytes) -> Iterator[_Item]:
        """Links are no objects and lead nowhere, here as everywhere."""
        for key, name, is_folder in self._names(within, above):
            inner = (*within, name)
            if not is_folder:
                yield key, inner, False
            elif not self._may_hold(key):
                continue
            elif self._fold(key) == key and key > self._after:
                if self._holds_object(inner):
                    yield key, inner, True
            else:
                yield from self._walk(inner, key)

    def _names(self, within: Place, above: bytes) -> Iterator[tuple[bytes, str, bool]]:
        """Those that may be wanted, or hold what is."""
        names: Sequence[Name] = ()
        with suppress(*NO_FILE), open_folder(self._bucket.root, within) as folder:
            names = self._folder_names.read(folder.descriptor, self._first_in(above))
        for own, name, is_folder in names:
            key = above + own
            if key in (_HIDDEN, _HIDDEN + b"/") or len(key) - is_folder > KEY_MOST_BYTES:
                continue
            if self._may_hold(key) if is_folder else self._is_wanted(key):
                yield key, name, is_folder

    def _first_in(self, above: bytes) -> bytes:
        """The first name in this folder that is not before what was listed last."""
        if not self._after.startswith(above):
            return b""
        name, slash, _ = self._after[len(above) :].partition(b"/")
        return name + slash

    def _holds_object(self, within: Place) -> bool:
        folders = []
        with closing(_looked_into(self._bucket.root, within)) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    folders.append((*within, item.name))
                elif item.is_file(follow_symlinks=False) and not is_temporary(item.name):
                    return True
        is_too_deep = len(within) > KEY_MOST_BYTES // 2
        return not is_too_deep and any(self._holds_object(each) for each in folders)

    def _info(self, key: bytes, place: Place | None) -> ObjectInfo | None:
        """None for what is gone by now, a link, a socket."""
        named = os.fsdecode(key)
        if place is None:
            return self._bucket.find(named)
        with suppress(*NO_FILE):
            return self._bucket.info(named, self._folder(place[:-1]), place[-1])
        return None

    def _folder(self, names: Place) -> Folder:
        if self._looked_into is None or self._looked_into[0] != names:
            self.close()
            self._looked_into = names, open_folder(self._bucket.root, names)
        return self._looked_into[1]


def _looked_into(root: str, names: Place) -> Generator["os.DirEntry[str]", None, None]:
    """What may be an object or hold one; nothing where there is no such folder."""
    with (
        suppress(*NO_FILE),
        open_folder(root, names) as folder,
        os.scandir(folder.descriptor) as scan,
    ):
        yield from (item for item in scan if not item.is_symlink())
