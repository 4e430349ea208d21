"""A bucket on S3, Google Cloud Storage or Azure, over obstore. Opened by `connect.py`.

obstore retries requests and resumes broken bodies; its errors become ours in `cloud_errors.py`.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, NotModifiedError
from obstore.store import GCSStore

from trackside.errors import (
    DamagedTransfer,
    InvalidKey,
    ObjectChanged,
    ObjectNotFound,
    StorageError,
    TracksideError,
)
from trackside.storage.cloud_errors import BucketLabel, is_beyond_the_end, is_refusal, translated
from trackside.storage.store import NOTHING, Entry, Store, check_key, up_to

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta, PutMode, PutResult, UpdateVersion
    from obstore.store import AzureStore, S3Store

    from trackside.storage.conditional_upload import ConditionalUpload

PART_BYTES = 8 << 20
"""Objects up to this size go in one request; larger ones in parts of at least this size."""

_STREAM_PART_BYTES = 16 << 20  # S3 allows 10,000 parts: 160 GB of unknown length
_MOST_PARTS = 9_000
_DIGEST_BYTES = 1 << 20
"""Up to this size, a digest costs less than a request that asks for the stored size."""
_PIECE_BYTES = 64 << 10
_PARTS_AT_ONCE = 4
_HEADS_AT_ONCE = 16
_PAGE = 1000
_SIGNED_FOR = timedelta(minutes=30)


class CloudStore(Store):
    """One bucket or container. Holds a pool of connections."""

    def __init__(
        self,
        inner: "S3Store | GCSStore | AzureStore",
        label: BucketLabel,
        *,
        endpoint: str | None = None,
        conditional_upload: "Callable[[], ConditionalUpload] | None" = None,
    ) -> None:
        """Without `conditional_upload`, only what fits in one request is put with a condition."""
        self._inner = inner
        self._label = label
        self._endpoint = endpoint
        self._conditional_upload = conditional_upload
        self.most_conditional_bytes = PART_BYTES if conditional_upload is None else None

    def __repr__(self) -> str:
        return f"CloudStore({self._label.name!r} at {self._label.server!r})"

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        check_key(key)
        source = _Source(data)
        try:
            with errors_named(self._label, key):
                etag = self._send(key, source, replaces)
        except Exception:
            if source.failure is not None:
                raise source.failure from None  # the chunks' own error, not the store's
            raise
        if source.md5 and etag == source.md5:
            return Entry(key, source.size_bytes, etag)  # the store has these bytes
        return self._confirmed(key, source.size_bytes, etag)

    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        if etag is None and end is not None and end > start:
            return self._get_range(key, start, end)
        result = self._request(key, start, end, etag)
        if result is None:
            return b""
        with errors_named(self._label, key):
            return result.bytes().to_bytes()

    def get_newer(self, key: str, than: str | None) -> tuple[bytes, str | None] | None:
        """In one request, with If-None-Match."""
        check_key(key)
        options: GetOptions = {} if than is None else {"if_none_match": f'"{than}"'}
        with errors_named(self._label, key):
            try:
                result = obstore.get(self._inner, key, options=options)
            except NotModifiedError:
                return None
            etag = _unquoted(result.meta["e_tag"])
            if than is not None and etag == than:
                return None  # some servers ignore the condition
            return result.bytes().to_bytes(), etag

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        result = self._request(key, start, end, etag)
        if result is None:
            return
        # Small pieces: allocating large ones cost more than the rest of a download.
        pieces = iter(result.stream(min_chunk_size=_PIECE_BYTES))
        while True:
            with errors_named(self._label, key):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def move(
        self, key: str, start: int, end: int, target: int, *, etag: str | None
    ) -> Iterator[int]:
        if etag is None or not (self._endpoint or "").startswith("http://"):
            return
        from trackside.storage import plain_http  # 12 ms that the start of a job does without

        if plain_http.is_usable(self._endpoint):
            with suppress(BaseError):  # no credentials; `read` reports it
                url = obstore.sign(self._inner, "GET", key, _SIGNED_FOR)
                yield from plain_http.moved(url, start, end, target, etag)

    def stat(self, key: str) -> Entry:
        check_key(key)
        with errors_named(self._label, key):
            try:
                return _entry(obstore.head(self._inner, key))
            except BaseError as error:
                if is_refusal(error):
                    # The response to HEAD has no body, and so no code: the one to GET has it.
                    obstore.get_range(self._inner, key, start=0, length=1)
                raise

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        start, bound = _sortable(prefix), _sortable(after)
        for page in self._pages(prefix, after):
            matching = [
                meta
                for meta in page
                if (key := _sortable(meta["path"])).startswith(start) and key > bound
            ]
            yield from map(_entry, self._without_markers(matching))
            last = _sortable(page[-1]["path"])
            if last > start and not last.startswith(start):
                return  # ordered: nothing further can match

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while batch := tuple(islice(remaining, _PAGE)):
            for key in batch:
                check_key(key)
            with errors_named(self._label, batch[0] if len(batch) == 1 else ""):
                self._delete(batch)

    def _get_range(self, key: str, start: int, end: int) -> bytes:
        """In one call of obstore instead of two, with little code of ours: for small downloads."""
        check_key(key)
        try:
            return obstore.get_range(self._inner, key, start=start, end=end).to_bytes()
        except (BaseError, OSError, ValueError) as error:
            if is_beyond_the_end(error):
                return b""
            raise translated(error, self._label, key) from error

    def _request(
        self, key: str, start: int, end: int | None, etag: str | None
    ) -> "GetResult | None":
        """The response before its body is read; None if no byte of the object is in the range."""
        check_key(key)
        if end is not None and end <= start:
            self.stat(key)
            return None
        with errors_named(self._label, key):
            try:
                result = obstore.get(self._inner, key, options=_options(start, end, etag))
            except BaseError as error:
                if is_beyond_the_end(error):
                    return None
                raise
        # Checked again here, because some servers ignore If-Match.
        if etag is not None and _unquoted(result.meta["e_tag"]) != etag:
            raise ObjectChanged(f"{self._label.at(key)} was replaced. List and read it again.")
        return result

    def _send(self, key: str, source: "_Source", replaces: str | None) -> str | None:
        """The new object's etag."""
        chunks = iter(source)
        head = tuple(up_to(chunks, PART_BYTES))
        if sum(map(len, head)) <= PART_BYTES:
            data = b"".join(head)
            if len(data) <= _DIGEST_BYTES:
                source.md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if replaces is None:
                return _etag(obstore.put(self._inner, key, data, use_multipart=False))
            return self._send_conditionally(key, data, replaces)
        if replaces is not None:
            if self._conditional_upload is None:
                raise StorageError(
                    f"{self._label.at(key)} cannot be stored with a condition: it has over "
                    f"{PART_BYTES >> 20} MiB, which {self._label.server} takes in parts only."
                )
            upload = self._conditional_upload()
            return upload.put(key, chain(head, chunks), source.part_bytes, replaces)
        return _etag(
            obstore.put(
                self._inner,
                key,
                chain(head, chunks),
                use_multipart=True,
                chunk_size=source.part_bytes,
                max_concurrency=_PARTS_AT_ONCE,
            )
        )

    def _send_conditionally(self, key: str, data: bytes, replaces: str) -> str | None:
        try:
            mode = self._mode(key, replaces)
            return _etag(obstore.put(self._inner, key, data, mode=mode, use_multipart=False))
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            raise ObjectChanged(f"{self._label.at(key)} was deleted. Read it again.") from error

    def _mode(self, key: str, replaces: str) -> "PutMode":
        if replaces == NOTHING:
            return "create"
        version: UpdateVersion = {"e_tag": _quoted(replaces)}
        if isinstance(self._inner, GCSStore):  # compares generations instead
            found = obstore.head(self._inner, key)
            if _unquoted(found["e_tag"]) != replaces:
                raise ObjectChanged(f"{self._label.at(key)} was replaced. Read it again.")
            version["version"] = found["version"]
        return version

    def _confirmed(self, key: str, size_bytes: int, etag: str | None) -> Entry:
        """Compare with what is stored now. Another writer's newer object is not an error."""
        found = self.stat(key)
        if found.etag != etag and etag is not None:
            return Entry(key, size_bytes, etag, found.modified)
        if found.size_bytes != size_bytes:
            raise DamagedTransfer(
                f"{self._label.at(key)} has {found.size_bytes} bytes where {size_bytes} were "
                "sent. Store it again; if that repeats, suspect the server."
            )
        return found

    def _pages(self, prefix: str, after: str) -> "Iterator[Sequence[ObjectMeta]]":
        folder, _, start = prefix.rpartition("/")
        if folder and not _is_key(folder):
            return  # no key can start like this
        # obstore matches whole segments, so a prefix that ends inside one is searched for in its
        # folder, from just before the first key it can match.
        offsets = [text for text in (after, _just_before(prefix) if start else "") if _is_key(text)]
        offset = max(offsets, key=_sortable, default=None)
        with errors_named(self._label, prefix):
            stream = obstore.list(self._inner, folder or None, offset=offset, chunk_size=_PAGE)
            pages = iter(stream)
        while True:
            with errors_named(self._label, prefix):
                page = next(pages, None)
            if not page:
                return
            yield page

    def _without_markers(self, page: "Sequence[ObjectMeta]") -> "Iterator[ObjectMeta]":
        """obstore shows the folder marker `a/b/` as an empty object `a/b`, which does not exist."""
        empty = [meta["path"] for meta in page if meta["size"] == 0]
        real: set[str] = set()
        if empty:
            with ThreadPoolExecutor(min(len(empty), _HEADS_AT_ONCE)) as pool:
                real.update(
                    key
                    for key, found in zip(empty, pool.map(self._exists, empty), strict=True)
                    if found
                )
        for meta in page:
            if meta["size"] > 0:
                yield meta
            elif meta["path"] in real:
                real.discard(meta["path"])  # where both exist, the marker comes second
                yield meta

    def _exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except ObjectNotFound:
            return False
        return True

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            obstore.delete(self._inner, keys)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            for key in keys:  # Google and Azure reject one, and skip the rest
                with suppress(FileNotFoundError):
                    obstore.delete(self._inner, key)


@contextmanager
def errors_named(label: BucketLabel, key: str) -> Iterator[None]:
    """Turn obstore's errors into ours, with the location in the message."""
    try:
        yield
    except TracksideError:
        raise
    except (BaseError, OSError, ValueError) as error:
        raise translated(error, label, key) from error


class _Source:
    """The data to store, as chunks. Counts them, and records the error they ended with."""

    def __init__(self, data: bytes | Path | Iterable[bytes]) -> None:
        self.size_bytes = 0
        self.md5 = ""
        """Of all of it, if it is small: what most stores return as etag."""
        self.part_bytes = _STREAM_PART_BYTES
        self.failure: Exception | None = None
        self._chunks: Iterable[bytes]
        if isinstance(data, bytes):
            self._chunks = (data,)
        elif isinstance(data, Path):
            size = _size(data)
            self.part_bytes = max(PART_BYTES, -(-size // _MOST_PARTS))
            self._chunks = _file_chunks(data, size)
        else:
            self._chunks = data

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._chunks:
                self.size_bytes += len(chunk)
                yield chunk
        except Exception as error:
            self.failure = error
            raise


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        raise ObjectNotFound(f"{str(path)!r} does not exist.") from None


def _file_chunks(path: Path, size_bytes: int) -> Iterator[bytes]:
    """Exactly the file's initial content; an error prevents storing a partial one."""
    with open(path, "rb", buffering=0) as file:
        left = size_bytes
        while left > 0:
            chunk = file.read(min(left, PART_BYTES))
            if not chunk:
                raise DamagedTransfer(
                    f"{str(path)!r} shrank from {size_bytes} to {size_bytes - left} bytes while it "
                    "was stored. Store it again once nothing writes to it."
                )
            left -= len(chunk)
            yield chunk


def _options(start: int, end: int | None, etag: str | None) -> "GetOptions":
    options: GetOptions = {}
    if end is not None:
        options["range"] = (start, end)
    elif start > 0:
        options["range"] = {"offset": start}
    if etag is not None and not etag.startswith("W/"):  # a weak tag never matches
        options["if_match"] = _quoted(etag)
    return options


def _entry(meta: "ObjectMeta") -> Entry:
    etag = _unquoted(meta["e_tag"])
    return Entry(meta["path"], meta["size"], etag, meta["last_modified"].timestamp())


def _etag(result: "PutResult") -> str | None:
    return _unquoted(result["e_tag"])


def _quoted(etag: str) -> str:
    return etag if etag.startswith("W/") else f'"{etag}"'


def _unquoted(etag: str | None) -> str | None:
    return etag if etag is None or etag.startswith("W/") else etag.strip('"')


def _sortable(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


def _is_key(text: str) -> bool:
    try:
        check_key(text)
    except InvalidKey:
        return False
    return True


def _just_before(prefix: str) -> str:
    """A text below every key that starts with `prefix`, and above nearly all that sort earlier."""
    last = prefix[-1]
    return f"{prefix[:-1]}{chr(ord(last) - 1)}~~~~" if "!" < last <= "~" else prefix[:-1]
