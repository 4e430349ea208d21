"""Listings: of keys in three forms, and of unfinished uploads."""

import base64
import binascii
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trackside.api.budget import Budget
from trackside.api.call import Reply
from trackside.api.s3.bucket import ObjectInfo
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.documents import Node, document, iso_time, owner, url_encoded
from trackside.api.s3.errors import s3_error
from trackside.api.s3.folder_names import FolderNames
from trackside.api.s3.listing import PAGE, ListOptions, Page, list_page
from trackside.api.s3.target import Target
from trackside.api.s3.threads import Threads
from trackside.api.s3.uploads import Upload, Uploads

_NOTHING = Page([], [], None)


class ListCalls:
    def __init__(self, buckets: Buckets, threads: Threads, budget: Callable[[], Budget]) -> None:
        self._buckets = buckets
        self._threads = threads
        self._budget = budget
        self._uploads: defaultdict[str, dict[str, Upload]] = defaultdict(dict)
        """The unfinished ones that were read, by the bucket's folder."""
        self._names = FolderNames()

    async def objects(self, target: Target) -> Reply:
        """Version 1: pages continue after the last name."""
        form = _Form(target)
        after = target.query.get("marker", "")
        page = await self._page(target, after)
        if page == _NOTHING and _is_root_listing(target):
            page = await self._root(target)
        # S3 leaves NextMarker out without a delimiter, as the last key serves as well. It does not
        # where the budget was spent, perhaps before any key was found.
        is_short = len(page.objects) + len(page.prefixes) < form.most
        following = page.next if form.delimiter or is_short else None
        nodes: list[Node] = [
            *form.head(),
            ("Marker", form.text(after)),
            ("NextMarker", None if following is None else form.text(following)),
            ("MaxKeys", form.most),
            ("IsTruncated", page.next is not None),
            *form.contents(page, with_owner=True),
            *form.common(page),
        ]
        return document("ListBucketResult", nodes)

    async def objects_v2(self, target: Target) -> Reply:
        form = _Form(target)
        token = target.query.get("continuation-token")
        start = target.query.get("start-after", "")
        page = await self._page(target, start if token is None else _read_token(token))
        with_owner = target.query.get("fetch-owner", "").lower() == "true"
        nodes: list[Node] = [
            *form.head(),
            ("StartAfter", form.text(start) if start else None),
            ("ContinuationToken", token),
            ("NextContinuationToken", None if page.next is None else _token(page.next)),
            ("KeyCount", len(page.objects) + len(page.prefixes)),
            ("MaxKeys", form.most),
            ("IsTruncated", page.next is not None),
            *form.contents(page, with_owner=with_owner),
            *form.common(page),
        ]
        return document("ListBucketResult", nodes)

    async def versions(self, target: Target) -> Reply:
        """Each object is its only version."""
        form = _Form(target)
        after = target.query.get("key-marker", "")
        page = await self._page(target, after)
        nodes: list[Node] = [
            *form.head(),
            ("KeyMarker", form.text(after)),
            ("VersionIdMarker", target.query.get("version-id-marker", "")),
            ("NextKeyMarker", None if page.next is None else form.text(page.next)),
            ("NextVersionIdMarker", None if page.next is None else "null"),
            ("MaxKeys", form.most),
            ("IsTruncated", page.next is not None),
            *form.contents(page, with_owner=True, name="Version"),
            *form.common(page),
        ]
        return document("ListVersionsResult", nodes)

    async def uploads(self, target: Target) -> Reply:
        form = _Form(target)
        bucket = self._buckets.get(target.bucket)
        known, budget = self._uploads[bucket.root], self._budget()
        found = await self._threads.scan(Uploads(bucket).all, known, budget)
        page = _uploads_page(found, target)
        shown: list[Node] = [("Upload", _upload_nodes(each, form.text)) for each in page.uploads]
        folders: list[Node] = [
            ("CommonPrefixes", [("Prefix", form.text(each))]) for each in page.prefixes
        ]
        nodes: list[Node] = [
            ("Bucket", target.bucket),
            ("KeyMarker", form.text(target.query.get("key-marker", ""))),
            ("UploadIdMarker", target.query.get("upload-id-marker", "")),
            ("NextKeyMarker", form.text(page.last_key) if page.more else None),
            ("NextUploadIdMarker", page.last_id if page.more else None),
            ("Prefix", form.text(target.query.get("prefix", ""))),
            ("Delimiter", form.text(target.query["delimiter"]) if form.delimiter else None),
            ("MaxUploads", target.number("max-uploads", PAGE, PAGE)),
            ("EncodingType", form.encoding),
            ("IsTruncated", page.more),
        ]
        return document("ListMultipartUploadsResult", [*nodes, *shown, *folders])

    async def _root(self, target: Target) -> Page:
        """TensorBoard checks in this way whether `s3://bucket/` is a folder: it is, if the bucket
        has any object. In S3 itself no key starts with `/`, and the response would be empty."""
        bucket = self._buckets.get(target.bucket)
        options = ListOptions(most=1)
        names, budget = self._names, self._budget()
        anything = await self._threads.scan(list_page, bucket, options, names, budget)
        return _NOTHING if anything == _NOTHING else Page([], ["/"], None)

    async def _page(self, target: Target, after: str) -> Page:
        bucket = self._buckets.get(target.bucket)
        query = target.query
        most = target.number("max-keys", PAGE, PAGE)
        options = ListOptions(query.get("prefix", ""), query.get("delimiter", ""), after, most)
        names, budget = self._names, self._budget()
        return await self._threads.scan(list_page, bucket, options, names, budget)


def _is_root_listing(target: Target) -> bool:
    query = target.query
    return query.get("prefix") == "/" == query.get("delimiter") and not query.get("marker")


class _Form:
    """How this listing is written: all names percent-encoded, or as they are."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.encoding = target.query.get("encoding-type")
        if self.encoding not in (None, "url"):
            raise s3_error("InvalidArgument", f"encoding-type={self.encoding!r} is not 'url'.")
        self.text: Callable[[str], str] = url_encoded if self.encoding else str
        self.most = target.number("max-keys", PAGE, PAGE)
        self.delimiter = target.query.get("delimiter", "")

    def head(self) -> list[Node]:
        return [
            ("Name", self._target.bucket),
            ("Prefix", self.text(self._target.query.get("prefix", ""))),
            ("Delimiter", self.text(self.delimiter) if self.delimiter else None),
            ("EncodingType", self.encoding),
        ]

    def contents(self, page: Page, *, with_owner: bool, name: str = "Contents") -> Iterable[Node]:
        for info in page.objects:
            nodes: list[Node] = [("Key", self.text(info.key))]
            if name == "Version":
                nodes += [("VersionId", "null"), ("IsLatest", True)]
            yield name, [*nodes, *_object_nodes(info), ("Owner", owner() if with_owner else None)]

    def common(self, page: Page) -> Iterable[Node]:
        for prefix in page.prefixes:
            yield "CommonPrefixes", [("Prefix", self.text(prefix))]


def _object_nodes(info: ObjectInfo) -> list[Node]:
    record = info.record
    nodes: list[Node] = [
        ("LastModified", iso_time(info.modified)),
        ("ETag", f'"{record.etag}"'),
        ("Size", info.size),
        ("StorageClass", record.headers.get("x-amz-storage-class", "STANDARD")),
    ]
    if record.checksum:
        nodes.append(("ChecksumAlgorithm", record.algorithm.upper()))
        nodes.append(("ChecksumType", record.checksum_type))
    return nodes


def _token(after: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(after)).decode()


def _read_token(token: str) -> str:
    try:
        return os.fsdecode(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise s3_error("InvalidArgument", "The continuation token provided is incorrect") from None


@dataclass(slots=True)
class _UploadsPage:
    uploads: list[Upload]
    prefixes: list[str]
    last_key: str = ""
    last_id: str = ""
    more: bool = False


def _uploads_page(found: list[Upload], target: Target) -> _UploadsPage:
    prefix, delimiter = target.query.get("prefix", ""), target.query.get("delimiter", "")
    marker = target.query.get("key-marker", "")
    most = target.number("max-uploads", PAGE, PAGE)
    page = _UploadsPage([], [])
    for upload in _after(found, marker, target.query.get("upload-id-marker", "")):
        if not upload.key.startswith(prefix):
            continue
        end = upload.key.find(delimiter, len(prefix)) if delimiter else -1
        folded = upload.key[: end + len(delimiter)] if end >= 0 else None
        if folded is not None and (folded in page.prefixes[-1:] or folded == marker):
            continue
        if len(page.uploads) + len(page.prefixes) == most:
            page.more = True
            return page
        if folded is None:
            page.uploads.append(upload)
            page.last_key, page.last_id = upload.key, upload.id
        else:
            page.prefixes.append(folded)
            page.last_key, page.last_id = folded, ""
    return page


def _after(found: list[Upload], marker: str, id_marker: str) -> list[Upload]:
    if not marker:
        return found
    start = os.fsencode(marker)
    later = [each for each in found if os.fsencode(each.key) > start]
    same = [each for each in found if each.key == marker]
    ids = [each.id for each in same]
    if id_marker in ids:
        return same[ids.index(id_marker) + 1 :] + later
    return later


def _upload_nodes(upload: Upload, text: Callable[[str], str]) -> list[Node]:
    return [
        ("Key", text(upload.key)),
        ("UploadId", upload.id),
        ("Initiator", owner()),
        ("Owner", owner()),
        ("StorageClass", "STANDARD"),
        ("Initiated", iso_time(upload.created)),
        ("ChecksumAlgorithm", upload.algorithm.upper()),
        ("ChecksumType", upload.checksum_type),
    ]
