"""The operations on multipart uploads: create, parts, lists, complete, abort."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from trackside.api.call import Reply, ServiceError
from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.checksums import (
    COMPOSITE,
    DEFAULT,
    HEADER,
    PartSum,
    algorithm_named,
    check_type,
    default_type,
    encoded,
    new_digest,
    of_parts,
)
from trackside.api.s3.copy_calls import open_source
from trackside.api.s3.documents import (
    Element,
    Node,
    document,
    iso_time,
    owner,
    read_document,
    url_encoded,
    whole_body,
)
from trackside.api.s3.errors import s3_error
from trackside.api.s3.object_calls import condition
from trackside.api.s3.object_headers import described
from trackside.api.s3.ranges import copied_range
from trackside.api.s3.record import ObjectRecord
from trackside.api.s3.target import Target, whole_number
from trackside.api.s3.threads import Threads
from trackside.api.s3.upload_part import PART_LEAST_BYTES, Part
from trackside.api.s3.uploads import PARTS_MOST, Upload, Uploads
from trackside.api.s3.verified_body import Arrived, VerifiedBody, announced_size

_COPY_PIECE_BYTES = 1 << 20


class UploadCalls:
    def __init__(self, buckets: Buckets, threads: Threads) -> None:
        self._buckets = buckets
        self._threads = threads

    async def begin(self, target: Target) -> Reply:
        uploads = Uploads(self._buckets.get(target.bucket))
        algorithm = algorithm_named(target.headers, "x-amz-checksum-algorithm")
        kind = target.headers.get("x-amz-checksum-type", "").upper()
        if kind and algorithm is None:
            raise s3_error("InvalidRequest", "x-amz-checksum-type needs x-amz-checksum-algorithm.")
        chosen = algorithm or DEFAULT
        check_type(chosen, kind or default_type(chosen))
        upload = await self._threads.run(
            uploads.begin, target.key, described(target.headers), chosen,
            kind or default_type(chosen),
        )  # fmt: skip
        headers = {}
        if algorithm:
            headers["x-amz-checksum-algorithm"] = algorithm.upper()
            headers["x-amz-checksum-type"] = upload.checksum_type
        nodes: list[Node] = [("Bucket", target.bucket), ("Key", target.key)]
        return document("InitiateMultipartUploadResult", [*nodes, ("UploadId", upload.id)], headers)

    async def put_part(self, target: Target) -> Reply:
        uploads, upload = self._upload(target)
        number, size = _part_number(target), announced_size(target.headers)
        if size is None:
            raise s3_error("MissingContentLength")
        new = await self._threads.run(uploads.new_part, upload, number, size)
        try:
            signature = target.call.signature
            intake = VerifiedBody(target.headers, signature, new.write_at, upload.algorithm)
            arrived = await self._threads.take_in(target.call.chunks, intake)
            part = await self._threads.run(new.keep, arrived)
        except FileNotFoundError:  # completed or aborted meanwhile
            raise s3_error("NoSuchUpload") from None
        finally:
            await self._threads.run(new.close)
        algorithm, checksum = arrived.requested
        return Reply(200, b"", {"etag": f'"{part.etag}"', HEADER + algorithm: checksum})

    async def copy_part(self, target: Target) -> Reply:
        uploads, upload = self._upload(target)
        part = await self._threads.run(self._copied_part, target, uploads, upload)
        nodes: list[Node] = [
            ("LastModified", iso_time(part.modified)),
            ("ETag", f'"{part.etag}"'),
            (f"Checksum{upload.algorithm.upper()}", part.checksum),
        ]
        return document("CopyPartResult", nodes)

    async def parts(self, target: Target) -> Reply:
        uploads, upload = self._upload(target)
        most = target.number("max-parts", 1000, 1000)
        marker = target.number("part-number-marker", 0, PARTS_MOST)
        found = await self._threads.run(uploads.parts, upload)
        left = [part for part in found.values() if part.number > marker]
        page = left[:most]
        nodes: list[Node] = [
            ("Bucket", target.bucket), ("Key", target.key), ("UploadId", upload.id),
            ("Initiator", owner()), ("Owner", owner()), ("StorageClass", "STANDARD"),
            ("PartNumberMarker", marker),
            ("NextPartNumberMarker", page[-1].number if page else 0),
            ("MaxParts", most), ("IsTruncated", len(left) > len(page)),
            ("ChecksumAlgorithm", upload.algorithm.upper()),
            ("ChecksumType", upload.checksum_type),
        ]  # fmt: skip
        name = f"Checksum{upload.algorithm.upper()}"
        nodes += [
            ("Part", [
                ("PartNumber", part.number), ("LastModified", iso_time(part.modified)),
                ("ETag", f'"{part.etag}"'), ("Size", part.size), (name, part.checksum),
            ])
            for part in page
        ]  # fmt: skip
        return document("ListPartsResult", nodes)

    async def complete(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        data = await whole_body(target, has_own_checksum=False)
        info = await self._threads.run(self._completed, target, bucket, data)
        record = info.record
        nodes: list[Node] = [
            ("Location", f"/{target.bucket}/{url_encoded(target.key)}"),
            ("Bucket", target.bucket), ("Key", target.key), ("ETag", f'"{info.etag}"'),
            (f"Checksum{record.algorithm.upper()}", record.checksum),
            ("ChecksumType", record.checksum_type),
        ]  # fmt: skip
        return document("CompleteMultipartUploadResult", nodes)

    async def abort(self, target: Target) -> Reply:
        uploads, upload = self._upload(target)
        await self._threads.run(uploads.abort, upload)
        return Reply(204)

    def _upload(self, target: Target) -> tuple[Uploads, Upload]:
        uploads = Uploads(self._buckets.get(target.bucket))
        return uploads, uploads.get(target.key, target.query.get("uploadId", ""))

    def _copied_part(self, target: Target, uploads: Uploads, upload: Upload) -> Part:
        number = _part_number(target)
        with open_source(self._buckets, target) as source:
            given = target.headers.get("x-amz-copy-source-range")
            start, end = copied_range(given, source.info.size)
            new = uploads.new_part(upload, number, end - start)
            try:
                new.copy_from(source.descriptor, start, end - start)
                return new.keep(_digested(source.descriptor, start, end, upload.algorithm))
            finally:
                new.close()

    def _completed(self, target: Target, bucket: Bucket, data: bytes) -> ObjectInfo:
        uploads, upload_id = Uploads(bucket), target.query.get("uploadId", "")
        try:
            upload = uploads.get(target.key, upload_id)
        except ServiceError:
            return _completed_before(bucket, target.key, upload_id)
        demanded = read_document(data, "CompleteMultipartUpload").all("Part")
        parts = _chosen(demanded, uploads.parts(upload), upload)
        record = _whole(upload, parts)
        _check_whole(target, record, parts)
        try:
            return uploads.complete(upload, parts, record, condition(target))
        except ServiceError as error:
            if error.code != "NoSuchUpload":
                raise
            return _completed_before(bucket, target.key, upload_id)


def _completed_before(bucket: Bucket, key: str, upload_id: str) -> ObjectInfo:
    """A client that missed the response retries: the same response is right."""
    info = bucket.find(key)
    if info is None or not upload_id or info.record.upload != upload_id:
        raise s3_error("NoSuchUpload")
    return info


def _part_number(target: Target) -> int:
    number = target.number("partNumber", 0, PARTS_MOST + 1)
    if not 1 <= number <= PARTS_MOST:
        text = f"Part number must be an integer between 1 and {PARTS_MOST}, inclusive"
        raise s3_error("InvalidArgument", text)
    return number


def _chosen(demanded: Sequence[Element], found: dict[int, Part], upload: Upload) -> list[Part]:
    """The parts that the client names, each as it knows it, in ascending order.

    A part that was sent twice may be named once with each ETag, in sequence.
    """
    if not demanded:
        raise s3_error("MalformedXML", "The document names no part.")
    chosen: list[Part] = []
    for number, named in groupby(demanded, key=_number_of):
        if chosen and number <= chosen[-1].number:
            raise s3_error("InvalidPartOrder")
        part = found.get(number)
        etags = {(each.text("ETag") or "").strip().strip('"'): each for each in named}
        if part is None or part.etag not in etags:
            raise s3_error("InvalidPart", f"Part {number} with ETag {min(etags)!r} is not here.")
        checksum = etags[part.etag].text(f"Checksum{upload.algorithm.upper()}")
        if checksum is not None and checksum != part.checksum:
            raise s3_error("InvalidPart", f"Part {number} has another checksum than {checksum!r}.")
        chosen.append(part)
    small = next((part for part in chosen[:-1] if part.size < PART_LEAST_BYTES), None)
    if small is not None:
        text = f"Part {small.number} has {small.size} bytes; all but the last need 5 MiB."
        raise s3_error("EntityTooSmall", text)
    return chosen


def _number_of(part: Element) -> int:
    text = part.text("PartNumber") or ""
    number = whole_number(text)
    if number is None:
        raise s3_error("MalformedXML", f"{text[:64]!r} is not a part number.")
    return number


def _whole(upload: Upload, parts: Sequence[Part]) -> ObjectRecord:
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    etag = hashlib.md5(digests, usedforsecurity=False).hexdigest()
    sums = [PartSum(part.size, part.checksum) for part in parts]
    return replace(
        upload.record,
        etag=f"{etag}-{len(parts)}",
        algorithm=upload.algorithm,
        checksum=of_parts(upload.algorithm, upload.checksum_type, sums),
        checksum_type=upload.checksum_type,
        parts=[[part.size, part.checksum] for part in parts],
        upload=upload.id,
    )


def _check_whole(target: Target, record: ObjectRecord, parts: Sequence[Part]) -> None:
    """Against the client's values for the whole object, if any."""
    expected = target.headers.get(HEADER + record.algorithm)
    if expected is not None:
        computed = record.checksum
        if record.checksum_type == COMPOSITE and "-" not in expected:
            computed = computed.partition("-")[0]
        if expected != computed:
            text = f"The {record.algorithm.upper()} you specified did not match the parts' own."
            raise s3_error("BadDigest", text)
    size = target.headers.get("x-amz-mp-object-size")
    total = sum(part.size for part in parts)
    if size is not None and size != str(total):
        raise s3_error("InvalidRequest", f"The parts have {total} bytes together, not {size!r}.")


def _digested(descriptor: int, start: int, end: int, algorithm: str) -> Arrived:
    md5, checksum = new_digest("md5"), new_digest(algorithm)
    offset = start
    while offset < end:
        data = os.pread(descriptor, min(_COPY_PIECE_BYTES, end - offset), offset)
        if not data:
            raise s3_error("OperationAborted", "The source shrank while it was copied.")
        offset += len(data)
        md5.update(data)
        checksum.update(data)
    value = encoded(checksum.digest())
    return Arrived(end - start, md5.digest(), algorithm, value, (algorithm, value))
