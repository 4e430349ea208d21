"""CopyObject, and where a copy's source is: also for parts of an upload."""

import os
from dataclasses import replace

from trackside.api.call import Reply
from trackside.api.s3.bucket import Bucket, ObjectInfo, OpenObject
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.checksums import (
    DEFAULT,
    FULL,
    algorithm_named,
    encoded,
    new_digest,
)
from trackside.api.s3.conditions import check_read
from trackside.api.s3.documents import Node, document, iso_time
from trackside.api.s3.errors import s3_error
from trackside.api.s3.object_calls import condition
from trackside.api.s3.object_headers import described
from trackside.api.s3.record import ObjectRecord
from trackside.api.s3.target import Target, decoded
from trackside.api.s3.threads import Threads

_PIECE_BYTES = 1 << 20


class CopyCalls:
    def __init__(self, buckets: Buckets, threads: Threads) -> None:
        self._buckets = buckets
        self._threads = threads

    async def copy(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        info = await self._threads.run(self._copied, target, bucket)
        return document("CopyObjectResult", copy_result(info))

    def _copied(self, target: Target, bucket: Bucket) -> ObjectInfo:
        with open_source(self._buckets, target) as source:
            record = _record_of_copy(target, source.info)
            with bucket.create(target.key) as new:
                copied = new.file.copy_from(source.descriptor, source.info.size)
                if copied != source.info.size:
                    raise s3_error("OperationAborted", "The source shrank while it was copied.")
                new.describe(_digested(record, source, target))
                return new.publish(condition(target))


def open_source(buckets: Buckets, target: Target) -> OpenObject:
    given = target.headers["x-amz-copy-source"]
    path, _, version = given.partition("?versionId=")
    name, _, key = decoded(path).removeprefix("/").partition("/")
    if not name or not key:
        raise s3_error(
            "InvalidArgument", f"x-amz-copy-source: {given!r} is not of the form BUCKET/KEY."
        )
    if version not in ("", "null"):
        raise s3_error("NoSuchVersion")
    source = buckets.get(name).open(key)
    try:
        check_read(
            target.headers, source.info.etag, source.info.modified, start="x-amz-copy-source-"
        )
    except BaseException:
        source.close()
        raise
    return source


def copy_result(info: ObjectInfo) -> list[Node]:
    record = info.record
    nodes: list[Node] = [
        ("LastModified", iso_time(info.modified)),
        ("ETag", f'"{record.etag}"'),
    ]
    if record.checksum:
        nodes.append((f"Checksum{record.algorithm.upper()}", record.checksum))
        nodes.append(("ChecksumType", record.checksum_type))
    return nodes


def _record_of_copy(target: Target, source: ObjectInfo) -> ObjectRecord:
    given, kept = described(target.headers), source.record
    replaces = _directive(target, "x-amz-metadata-directive")
    is_itself = (
        decoded(target.headers["x-amz-copy-source"]).removeprefix("/").partition("?")[0]
        == f"{target.bucket}/{target.key}"
    )
    if is_itself and not replaces and not target.headers.keys() & _CHANGES:
        text = (
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location "
            "or encryption attributes."
        )
        raise s3_error("InvalidRequest", text)
    record = given if replaces else replace(kept, tags=given.tags, upload="", key="")
    if not replaces and "x-amz-storage-class" in given.headers:
        storage = {"x-amz-storage-class": given.headers["x-amz-storage-class"]}
        record = replace(record, headers={**record.headers, **storage})
    if not _directive(target, "x-amz-tagging-directive"):
        record = replace(record, tags=kept.tags)
    return record


_CHANGES = {
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    "x-amz-server-side-encryption",
    "x-amz-checksum-algorithm",
}


def _directive(target: Target, header: str) -> bool:
    """Whether it is REPLACE."""
    value = target.headers.get(header, "COPY")
    if value not in ("COPY", "REPLACE"):
        raise s3_error("InvalidArgument", f"{header}: {value!r} is neither COPY nor REPLACE.")
    return value == "REPLACE"


def _digested(record: ObjectRecord, source: OpenObject, target: Target) -> ObjectRecord:
    """The copy is an object of one part, whatever the parts of the source."""
    kept = source.info.record
    algorithm = algorithm_named(target.headers, "x-amz-checksum-algorithm")
    is_known = "-" not in kept.etag and kept.checksum_type == FULL
    if is_known and algorithm in (None, kept.algorithm):
        return replace(
            record,
            etag=kept.etag,
            algorithm=kept.algorithm,
            checksum=kept.checksum,
            checksum_type=FULL,
        )
    algorithm = algorithm or kept.algorithm or DEFAULT
    digests = new_digest("md5"), new_digest(algorithm)
    offset = 0
    while data := os.pread(source.descriptor, _PIECE_BYTES, offset):
        offset += len(data)
        for digest in digests:
            digest.update(data)
    return replace(
        record,
        etag=digests[0].digest().hex(),
        algorithm=algorithm,
        checksum=encoded(digests[1].digest()),
        checksum_type=FULL,
        parts=[],
    )
