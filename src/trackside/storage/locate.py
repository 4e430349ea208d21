"""Resolves a location (`s3://`, `gs://`, `az://`, `file://`, a path) to a store and a key."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trackside.errors import InvalidKey, UnknownScheme
from trackside.quick_dataclass import dataclass
from trackside.storage.credentials import S3Access, s3_access
from trackside.storage.folder import FolderStore
from trackside.storage.store import Entry, Store, check_key
from trackside.texts.storage_schemes import BY_NAME, PREFIXES, S3, Scheme, split_scheme

if TYPE_CHECKING:
    from trackside.storage.cloud import CloudStore

_ADVICE = dict.fromkeys(
    ("http", "https"),
    "Download it first, or write s3://BUCKET/KEY with the server in AWS_ENDPOINT_URL_S3.",
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Location:
    """A location in a store: an object, or a prefix of keys."""

    store: Store
    key: str
    """Empty at the top of a bucket or folder."""
    uri: str
    """As the user would write it; an absolute path on this machine."""

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return self.store.root / self.key if isinstance(self.store, FolderStore) else None

    def child(self, name: str) -> "Location":
        """The location `name` below this one; `name` may have several segments."""
        check_key(name)
        slash = "" if self.key.endswith("/") or not self.key else "/"
        uri = f"{self.uri}{name}" if self.uri.endswith("/") else f"{self.uri}/{name}"
        return Location(self.store, f"{self.key}{slash}{name}", uri)

    def __str__(self) -> str:
        return self.uri


def locate(uri: str | Path, *, home: Path, hurried: bool = False) -> Location:
    """`home` contains the embedded buckets. Opens no connection; reads AWS settings for `s3://`.

    A path that is a file is a key in its folder; any other is a folder, existing or not. With
    `hurried`, an unreachable store is given up within seconds, not minutes.
    """
    path = uri if isinstance(uri, Path) else local_path(uri)
    if path is not None:
        return _on_this_machine(path, home)
    uri = str(uri)
    scheme, rest = _split(uri)
    bucket, _, key = rest.partition("/")
    _check_bucket(uri, bucket)
    store = _store(BY_NAME[scheme], bucket, home, hurried)
    if isinstance(store, FolderStore):
        _check_inside(uri, key)
    return Location(store, key, uri)


def locate_to_read(uri: str | Path, *, home: Path) -> Location:
    """For a reader whom a person waits for: an unreachable store is given up within seconds, and
    is not asked again for a moment."""
    place = locate(uri, home=home, hurried=True)
    if isinstance(place.store, FolderStore):
        return place
    return Location(_asked_once(place.store), place.key, place.uri)


def locate_object_to_read(uri: str, *, home: Path) -> Location:
    """As `locate_object`, for such a reader."""
    folder, _, name = uri.rpartition("/")
    return locate_to_read(folder, home=home).child(name)


def local_path(uri: str) -> Path | None:
    """What a `file://` location or a path names on this machine; None for an object store.

    Opens and reads nothing.
    """
    scheme, rest = _split(uri)
    if not scheme:
        return Path(uri)
    return _file_path(uri, rest) if BY_NAME[scheme].is_local else None


def locate_object(uri: str, *, home: Path, hurried: bool = False) -> Location:
    """One object, existing or not: a path alone does not show whether it is a file or a folder."""
    folder, _, name = uri.rpartition("/")
    return locate(folder, home=home, hurried=hurried).child(name)


def entries_below(location: Location) -> Iterator[tuple[str, Entry]]:
    """Every object of a folder-like location, by its name below it."""
    prefix = location.child("x").key[:-1]
    for entry in location.store.list(prefix):
        if not entry.key.endswith("/"):
            yield entry.key.removeprefix(prefix), entry


def _split(uri: str) -> tuple[str, str]:
    """A known scheme and what follows its slashes; no scheme for a path."""
    scheme, rest = split_scheme(uri)
    if not scheme:
        return scheme, rest
    if scheme not in BY_NAME or not rest.startswith("//"):
        raise UnknownScheme(uri, list(PREFIXES), _ADVICE.get(scheme, ""))
    return scheme, rest[2:]


def _on_this_machine(path: Path, home: Path) -> Location:
    path = Path(os.path.abspath(path.expanduser()))
    is_private = path.is_relative_to(home)
    if path.is_file():
        return Location(FolderStore(path.parent, is_private=is_private), path.name, str(path))
    return Location(FolderStore(path, is_private=is_private), "", str(path))


def _file_path(uri: str, rest: str) -> Path:
    host, slash, path = rest.partition("/")
    if not slash or host not in ("", "localhost"):
        raise InvalidKey(
            f"{uri!r} names no file on this machine. Write file:///absolute/path, or just the path."
        )
    return Path("/", unquote(path))


def _check_bucket(uri: str, bucket: str) -> None:
    """Looser than S3 by capitals and underscores, which old buckets and other servers have."""
    if _BUCKET.fullmatch(bucket) is None or ".." in bucket:
        raise InvalidKey(
            f"{bucket!r} in {uri!r} is not a bucket name: 3 to 63 letters, digits, '-', '.' or "
            "'_', with a letter or digit at both ends."
        )


def _check_inside(uri: str, key: str) -> None:
    """A bucket that is a folder: `..` in a key would lead out of it for code that reads `local`."""
    if not {".", ".."}.isdisjoint(key.split("/")):
        raise InvalidKey(
            f"{uri!r} has a '.' or '..' segment, which would lead out of its bucket. "
            "Segments between slashes must be plain names."
        )


def _store(scheme: Scheme, bucket: str, home: Path, hurried: bool) -> Store:
    access = s3_access(home=home) if scheme == S3 else None
    if scheme == S3 and access is None:
        return FolderStore(home / "buckets" / bucket, is_private=True)
    return _cloud_store(scheme, bucket, access, hurried)


@lru_cache(maxsize=64)
def _cloud_store(
    scheme: Scheme, bucket: str, access: S3Access | None, hurried: bool
) -> "CloudStore":
    """Cached, because a store holds its open connections."""
    # Imported when first needed: it takes 40 ms, and most commands need no object store.
    from trackside.storage.connect import QUICK, STANDARD, open_bucket, open_s3

    retry = QUICK if hurried else STANDARD
    if access is not None:
        return open_s3(bucket, access, retry)
    return open_bucket(scheme, bucket, retry)


@lru_cache(maxsize=64)
def _asked_once(store: Store) -> Store:
    from trackside.storage.unreachable_stores import AskedOnce

    return AskedOnce(store)
