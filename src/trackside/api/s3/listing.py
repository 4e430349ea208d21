"""One page of a bucket's keys: in byte order, folded at a delimiter, from any start.

Holds the names of one branch of folders at a time, and reads below a common prefix only until it
finds an object. Work that yields no key (above all, empty folders) is limited by a budget.
"""

import heapq
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from trackside.api.budget import Budget
from trackside.api.s3.beneath import NO_FILE, Folder, open_folder
from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.folder_names import FolderNames, first_from
from trackside.api.s3.object_paths import ODD_KEYS, ObjectPath
from trackside.api.s3.target import KEY_MOST_BYTES
from trackside.storage.folder import HIDDEN
from trackside.storage.key_order import KeyRange, Name
from trackside.storage.partial_file import is_temporary

PAGE = 1000
"""Keys and common prefixes, at most."""
_OPENED = 16
"""The cost of reading a folder, in names that yield no key."""
_HIDDEN = os.fsencode(HIDDEN)


def listing_budget() -> Budget:
    """As many folders are read in any case as a full page has keys: where reading one takes as long
    as the budget is, pages are no shorter for it."""
    return Budget(least=PAGE)


@dataclass(frozen=True, slots=True)
class ListOptions:
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    """Only later keys; all keys below a whole common prefix count as listed."""
    most: int = PAGE


@dataclass(frozen=True, slots=True)
class Page:
    objects: list[ObjectInfo]
    prefixes: list[str]
    next: str | None
    """Where to continue; None on the last page. It need not be a key: a page whose budget is spent
    may end anywhere, even without any key."""


def list_page(
    bucket: Bucket,
    options: ListOptions,
    names: FolderNames | None = None,
    budget: Budget | None = None,
) -> Page:
    """`names` are cached from one page to the next."""
    objects: list[ObjectInfo] = []
    prefixes: list[str] = []
    last = ""
    if options.most == 0:
        return Page([], [], None)
    listing = _Listing(bucket, options, names or FolderNames(), budget or listing_budget())
    with closing(listing):
        for found in listing.items():
            if len(objects) + len(prefixes) == options.most:
                return Page(objects, prefixes, last)
            if isinstance(found, _Stop):
                return Page(objects, prefixes, found.after)
            if isinstance(found, str):
                prefixes.append(found)
                last = found
            else:
                objects.append(found)
                last = found.key
    return Page(objects, prefixes, None)


class _Item(NamedTuple):
    key: bytes
    path: ObjectPath | None = None
    """The path of its file; None for an encoded key."""
    is_folder: bool = False
    """That is a whole common prefix."""
    is_stop: bool = False
    """The budget is spent, and all keys up to this one were listed."""


class _Stop(NamedTuple):
    after: str


class _Listing:
    def __init__(
        self, bucket: Bucket, options: ListOptions, names: FolderNames, budget: Budget
    ) -> None:
        self._bucket = bucket
        self._folder_names = names
        self._budget = budget
        self._range = KeyRange(os.fsencode(options.prefix), os.fsencode(options.after))
        self._delimiter = os.fsencode(options.delimiter)
        self._reached: bytes | None = None
        """All keys up to here were listed, and all below it if it is a common prefix; None until
        this page has got further than the previous one."""
        self._folded: bytes | None = None
        """The latest common prefix: nothing that starts with it is wanted any more."""
        if self._fold(self._range.after) == self._range.after:
            self._folded = self._range.after
        self._last_folder: tuple[ObjectPath, Folder] | None = None
        """The latest folder of a file: the next one is mostly there, too."""

    def close(self) -> None:
        if self._last_folder is not None:
            self._last_folder[1].close()
            self._last_folder = None

    def items(self) -> Iterator[ObjectInfo | str | _Stop]:
        before: bytes | None = None
        for item in heapq.merge(self._odd(), self._plain(), key=lambda each: each.key):
            key = item.key
            if item.is_stop:
                yield self._stopped(key)
                return
            if not self._is_wanted(key) and not (item.is_folder and self._may_hold(key)):
                continue
            folded = self._fold(key)
            if folded:
                self._folded = self._reached = folded
                yield os.fsdecode(folded)
            elif key != before:
                before = self._reached = key
                info = self._info(key, item.path)
                if info is not None:
                    yield info
                elif self._is_spent_by_nothing():
                    yield self._stopped(key)
                    return

    def _stopped(self, key: bytes) -> _Stop:
        is_seen = self._folded is not None and key.startswith(self._folded)
        return _Stop(os.fsdecode(self._folded if is_seen and self._folded else key))

    def _is_spent_by_nothing(self) -> bool:
        self._budget.spend()
        return self._budget.is_spent

    def _fold(self, key: bytes) -> bytes | None:
        """The common prefix that this key is part of."""
        if not self._delimiter or not key.startswith(self._range.prefix):
            return None
        end = key.find(self._delimiter, len(self._range.prefix))
        return key[: end + len(self._delimiter)] if end >= 0 else None

    def _is_wanted(self, key: bytes) -> bool:
        if self._folded is not None and key.startswith(self._folded):
            return False
        return self._range.has_key(key)

    def _may_hold(self, folder: bytes) -> bool:
        """Whether any key below this folder, which ends in a slash, can be wanted."""
        if self._folded is not None and folder.startswith(self._folded):
            return False
        return self._range.has_keys_below(folder)

    def _odd(self) -> Iterator[_Item]:
        for key, _, _ in self._not_folded(self._odd_names, b""):
            if not key.startswith(self._range.prefix):
                return
            yield _Item(key)

    @cached_property
    def _odd_names(self) -> Sequence[Name]:
        start = max(self._range.after, self._range.prefix)
        with suppress(*NO_FILE), open_folder(self._bucket.root, ODD_KEYS) as folder:
            return self._folder_names.read(folder.descriptor, start, self._bucket.odd_names)
        return ()

    def _has_odd_below(self, folder: bytes) -> bool:
        number = first_from(self._odd_names, folder)
        return number < len(self._odd_names) and self._odd_names[number].key.startswith(folder)

    def _plain(self) -> Iterator[_Item]:
        folder, slash, _ = self._range.prefix.rpartition(b"/")
        if b"\0" in folder or any(
            name in (b"", b".", b"..") for name in folder.split(b"/") if slash
        ):
            return
        if folder == _HIDDEN or folder.startswith(_HIDDEN + b"/"):
            return
        names = tuple(os.fsdecode(folder).split("/")) if slash else ()
        yield from self._walk(names, folder + slash)

    def _walk(self, within: ObjectPath, above: bytes) -> Iterator[_Item]:
        """Links are no objects and are not followed."""
        for key, name, is_folder in self._names(within, above):
            inner = (*within, name)
            if not is_folder:
                yield _Item(key, inner)
            elif not self._may_hold(key):
                continue
            elif self._budget.is_spent and self._reached is not None:
                yield self._stop_before(key, self._reached)
            elif self._fold(key) == key and key > self._range.after:
                yield from self._common_prefix(inner, key)
            else:
                if key > self._range.after:
                    self._reached = key
                yield from self._walk(inner, key)

    def _stop_before(self, folder: bytes, reached: bytes) -> _Item:
        """Continuing after a common prefix would skip it."""
        return _Item(reached if self._fold(folder) == folder else folder, is_stop=True)

    def _common_prefix(self, within: ObjectPath, key: bytes) -> Iterator[_Item]:
        """A folder that is one, if it holds an object."""
        holds = self._has_odd_below(key) or self._holds_object(within)
        if holds:
            yield _Item(key, within, is_folder=True)
        elif holds is None and self._reached is not None:
            yield self._stop_before(key, self._reached)
        elif holds is None:  # in order, so that the next page can continue within it
            yield from self._walk(within, key)
        self._reached = key

    def _names(self, within: ObjectPath, above: bytes) -> Iterator[tuple[bytes, str, bool]]:
        """Those that match, or that are folders with possible matches."""
        names: Sequence[Name] = ()
        with suppress(*NO_FILE), open_folder(self._bucket.root, within) as folder:
            names = self._folder_names.read(folder.descriptor, self._first_in(above))
        self._budget.spend(_OPENED)
        for own, name, is_folder in self._not_folded(names, above):
            key = above + own
            if key[: len(self._range.prefix)] > self._range.prefix:
                return
            if key in (_HIDDEN, _HIDDEN + b"/") or len(key) - is_folder > KEY_MOST_BYTES:
                continue
            if self._may_hold(key) if is_folder else self._is_wanted(key):
                yield key, name, is_folder

    def _not_folded(self, names: Sequence[Name], above: bytes) -> Iterator[Name]:
        """All names of a folder except those below the latest common prefix, which are skipped."""
        number = 0
        while number < len(names):
            folded = self._folded
            if folded is not None and (above + names[number].key).startswith(folded):
                end = _end_of(folded)[len(above) :] if folded.startswith(above) else b""
                if not end:  # it covers the whole folder
                    return
                number = first_from(names, end, number)
                continue
            yield names[number]
            number += 1

    def _first_in(self, above: bytes) -> bytes:
        """The first name in this folder that is neither before the previous page's end nor before
        the prefix."""
        name = slash = b""
        if self._range.after.startswith(above):
            name, slash, _ = self._range.after[len(above) :].partition(b"/")
        prefix = self._range.prefix[len(above) :] if self._range.prefix.startswith(above) else b""
        return max(name + slash, prefix)

    def _holds_object(self, within: ObjectPath) -> bool | None:
        """None when the budget is spent before it is known."""
        folders = [within]
        while folders:
            inner = folders.pop()
            with closing(_last_folder(self._bucket.root, inner)) as items:
                for item in items:
                    if item.is_dir(follow_symlinks=False):
                        if len(inner) <= KEY_MOST_BYTES // 2:
                            folders.append((*inner, item.name))
                    elif item.is_file(follow_symlinks=False) and not is_temporary(item.name):
                        return True
            self._budget.spend(_OPENED)
            if self._budget.is_spent and folders:
                return None
        return False

    def _info(self, key: bytes, path: ObjectPath | None) -> ObjectInfo | None:
        """None for a file that was removed, a link, a socket."""
        named = os.fsdecode(key)
        if path is None:
            return self._bucket.find(named)
        with suppress(*NO_FILE):
            return self._bucket.info(named, self._folder(path[:-1]), path[-1])
        return None

    def _folder(self, names: ObjectPath) -> Folder:
        if self._last_folder is None or self._last_folder[0] != names:
            self.close()
            self._last_folder = names, open_folder(self._bucket.root, names)
        return self._last_folder[1]


def _last_folder(root: str, names: ObjectPath) -> Generator["os.DirEntry[str]", None, None]:
    """What may be an object or hold one; nothing where there is no such folder."""
    with (
        suppress(*NO_FILE),
        open_folder(root, names) as folder,
        os.scandir(folder.descriptor) as scan,
    ):
        yield from (item for item in scan if not item.is_symlink())


def _end_of(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix; empty when there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""
