"""The operations on one object: put, get, head, delete, attributes, tags."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from trackside.api.call import Reply
from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.checksums import FULL
from trackside.api.s3.conditions import check_read, check_write, is_conditional
from trackside.api.s3.documents import Node, document, owner, read_document, whole_body
from trackside.api.s3.errors import s3_error
from trackside.api.s3.object_headers import (
    checked_tags,
    checksum_headers,
    described,
    http_date,
    shown,
)
from trackside.api.s3.ranges import byte_range
from trackside.api.s3.record import ObjectRecord
from trackside.api.s3.target import Target, whole_number
from trackside.api.s3.threads import SMALL_BYTES, Threads
from trackside.api.s3.verified_body import Arrived, VerifiedBody, announced_size


class ObjectCalls:
    def __init__(self, buckets: Buckets, threads: Threads) -> None:
        self._buckets = buckets
        self._threads = threads

    async def put(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        record = described(target.headers)
        if is_conditional(target.headers):  # also before the body arrives, to save the transfer
            allowed_write(target)(await self._threads.run(bucket.find, target.key))
        size = announced_size(target.headers)
        if size is not None and size <= SMALL_BYTES:
            return stored(await self._put_small(target, bucket, record))
        return stored(await self._put_large(target, bucket, record))

    async def get(self, target: Target) -> Reply:
        found = self._buckets.open(target.bucket, target.key)
        try:
            start, end, status, headers = _selected(target, found.info)
            if end - start <= SMALL_BYTES:
                data = os.pread(found.descriptor, end - start, start)
                found.close()
                return Reply(status, data, headers)
        except BaseException:
            found.close()
            raise
        body = self._threads.send_out(partial(os.pread, found.descriptor), start, end, found.close)
        return Reply(status, body, headers)

    async def head(self, target: Target) -> Reply:
        with self._buckets.open(target.bucket, target.key) as found:
            _, _, status, headers = _selected(target, found.info)
        return Reply(status, b"", headers)

    async def delete(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        if "if-match" in target.headers:
            info = await self._threads.run(bucket.find, target.key)
            check_write(target.headers, info.etag if info else None)
        await self._threads.run(bucket.delete, target.key)
        return Reply(204)

    async def attributes(self, target: Target) -> Reply:
        with self._buckets.open(target.bucket, target.key) as found:
            info = found.info
        wanted = {
            each.strip() for each in target.headers.get("x-amz-object-attributes", "").split(",")
        }
        if not wanted - {""}:
            raise s3_error("InvalidArgument", "x-amz-object-attributes names none.")
        nodes = [node for node in _attributes(info, target) if node[0] in wanted]
        headers = {"last-modified": http_date(int(info.modified))}
        return document("GetObjectAttributesResponse", nodes, headers)

    async def tags(self, target: Target) -> Reply:
        with self._buckets.open(target.bucket, target.key) as found:
            tags = found.info.record.tags
        pairs: list[Node] = [("Tag", [("Key", k), ("Value", v)]) for k, v in sorted(tags.items())]
        return document("Tagging", [("TagSet", pairs)])

    async def put_tags(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        given = await self._threads.run(read_document, await whole_body(target), "Tagging")
        pairs = [
            (tag.text("Key") or "", tag.text("Value") or "")
            for tag_set in given.all("TagSet")
            for tag in tag_set.all("Tag")
        ]
        await self._change_tags(bucket, target.key, checked_tags(pairs))
        return Reply(200)

    async def delete_tags(self, target: Target) -> Reply:
        await self._change_tags(self._buckets.get(target.bucket), target.key, {})
        return Reply(204)

    async def acl(self, target: Target) -> Reply:
        self._buckets.open(target.bucket, target.key).close()
        return owners_acl()

    async def _change_tags(self, bucket: Bucket, key: str, tags: dict[str, str]) -> None:
        def changed(record: ObjectRecord) -> ObjectRecord:
            return replace(record, tags=tags)

        await self._threads.run(bucket.change_record, key, changed)

    async def _put_small(self, target: Target, bucket: Bucket, record: ObjectRecord) -> ObjectInfo:
        """Nothing touches the disk before all is here and right."""
        data: list[bytes] = []
        intake = VerifiedBody(
            target.headers, target.call.signature, lambda piece, _: data.append(piece)
        )
        arrived = await self._threads.take_in(target.call.chunks, intake)

        with bucket.create(target.key) as new:  # as far as memory goes; syncing is for a thread
            new.file.write_at(b"".join(data), 0)
            new.describe(of_arrived(record, arrived))
            return await self._threads.publish(new, condition(target))

    async def _put_large(self, target: Target, bucket: Bucket, record: ObjectRecord) -> ObjectInfo:
        new = await self._threads.run(bucket.create, target.key)
        try:
            intake = VerifiedBody(target.headers, target.call.signature, new.file.write_at)
            arrived = await self._threads.take_in(target.call.chunks, intake)
            await self._threads.run(new.describe, of_arrived(record, arrived))
            return await self._threads.run(new.publish, condition(target))
        finally:
            await self._threads.run(new.discard)


def of_arrived(record: ObjectRecord, arrived: Arrived) -> ObjectRecord:
    return replace(
        record,
        etag=arrived.md5.hex(),
        algorithm=arrived.algorithm,
        checksum=arrived.checksum,
        checksum_type=FULL,
    )


def condition(target: Target) -> Callable[[ObjectInfo | None], None] | None:
    """What must hold of the object that is replaced; None when anything may be."""
    return allowed_write(target) if is_conditional(target.headers) else None


def allowed_write(target: Target) -> Callable[[ObjectInfo | None], None]:
    def check(present: ObjectInfo | None) -> None:
        check_write(target.headers, None if present is None else present.etag)

    return check


def stored(info: ObjectInfo) -> Reply:
    return Reply(200, b"", {"etag": f'"{info.etag}"', **checksum_headers(info.record)})


def owners_acl() -> Reply:
    """The only one there is: rights belong to access keys here."""
    xsi = "http://www.w3.org/2001/XMLSchema-instance"
    grantee = f'Grantee xmlns:xsi="{xsi}" xsi:type="CanonicalUser"'
    grants: list[Node] = [("Grant", [(grantee, owner()), ("Permission", "FULL_CONTROL")])]
    return document("AccessControlPolicy", [("Owner", owner()), ("AccessControlList", grants)])


def _selected(target: Target, info: ObjectInfo) -> tuple[int, int, int, dict[str, str]]:
    """Start, end, status and headers of the response to a GET or HEAD."""
    check_read(target.headers, info.etag, info.modified)
    part, info, num_parts = _part(target, info)
    found = part or byte_range(target.headers.get("range"), info.size)
    whole = found is None or found == part or found == (0, info.size)
    enabled = target.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"
    headers = shown(info, target.query, with_checksum=enabled and whole)
    start, end = found or (0, info.size)
    headers["content-length"] = str(end - start)
    if num_parts:
        headers["x-amz-mp-parts-count"] = str(num_parts)
    if found is None:
        return start, end, 200, headers
    headers["content-range"] = f"bytes {start}-{max(start, end - 1)}/{info.size}"
    return start, end, 206, headers


def _part(target: Target, info: ObjectInfo) -> tuple[tuple[int, int] | None, ObjectInfo, int]:
    """The range of the requested part, the object with the part's checksum, the number of parts."""
    if "partNumber" not in target.query:
        return None, info, 0
    if "range" in target.headers:
        raise s3_error("InvalidRequest", "Cannot specify both Range header and partNumber")
    number = target.number("partNumber", 0, 10_001)
    sizes = [int(size) for size, _ in info.record.parts] or [info.size]
    if not 1 <= number <= len(sizes):
        raise s3_error("InvalidPart")
    start = sum(sizes[: number - 1])
    if info.record.parts:
        own = replace(info.record, checksum=info.record.parts[number - 1][1])
        info = replace(info, record=own)
    return (start, start + sizes[number - 1]), info, len(info.record.parts)


def _attributes(info: ObjectInfo, target: Target) -> list[Node]:
    record = info.record
    nodes: list[Node] = [("ETag", record.etag)]
    if record.checksum:
        value: Node = (f"Checksum{record.algorithm.upper()}", record.checksum)
        nodes.append(("Checksum", [value, ("ChecksumType", record.checksum_type)]))
    if record.parts:
        most = _number(target.headers, "x-amz-max-parts", 1000)
        nodes.append(
            ("ObjectParts", _parts(record, most, _number(target.headers, _PART_MARKER, 0)))
        )
    storage = record.headers.get("x-amz-storage-class", "STANDARD")
    return [*nodes, ("StorageClass", storage), ("ObjectSize", info.size)]


_PART_MARKER = "x-amz-part-number-marker"


def _parts(record: ObjectRecord, most: int, marker: int) -> list[Node]:
    # Parts have checksums where the object's own is made of them.
    name = f"Checksum{record.algorithm.upper()}" if record.checksum_type != FULL else ""
    page = list(enumerate(record.parts, 1))[marker : marker + most]
    following = page[-1][0] if page else marker
    shown: list[Node] = [
        ("Part", [("PartNumber", n), ("Size", size), *([(name, value)] if name else [])])
        for n, (size, value) in page
    ]
    return [
        ("PartsCount", len(record.parts)),
        ("PartNumberMarker", marker),
        ("NextPartNumberMarker", following),
        ("MaxParts", most),
        ("IsTruncated", following < len(record.parts)),
        *shown,
    ]


def _number(headers: Mapping[str, str], name: str, otherwise: int) -> int:
    text = headers.get(name, "")
    number = whole_number(text) if text else otherwise
    if number is None:
        raise s3_error("InvalidArgument", f"{name}: {text[:64]!r} is not a number.")
    return number
