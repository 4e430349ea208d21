"""Headers of an object: which ones of a request are stored, and how they are returned."""

import re
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from urllib.parse import parse_qsl

from trackside.api.s3.bucket import ObjectInfo
from trackside.api.s3.checksums import HEADER
from trackside.api.s3.errors import s3_error
from trackside.api.s3.record import DEFAULT_TYPE, STORED_HEADERS, ObjectRecord

_META = "x-amz-meta-"
_NOT_IN_HEADERS = re.compile(r"[^\t\x20-\x7e\xa0-\xff]")
_META_MOST_BYTES = 2048
_TAGS_MOST = 10
_OVERRIDES = {
    f"response-{name}": name
    for name in (
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    )
}
_OWN_KEY = "x-amz-server-side-encryption-customer-algorithm"


def described(headers: Mapping[str, str]) -> ObjectRecord:
    """The object's metadata from a request; the ETag is known when the body has arrived."""
    if _OWN_KEY in headers:
        text = "Encryption with a customer's key is not offered here: leave the headers out."
        raise s3_error("NotImplemented", text)
    metadata = {
        name.removeprefix(_META): value for name, value in headers.items() if name.startswith(_META)
    }
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > _META_MOST_BYTES:
        raise s3_error("MetadataTooLarge", f"{size} bytes of user metadata; 2048 are allowed.")
    kept = {name: headers[name] for name in STORED_HEADERS if name in headers}
    if "content-encoding" in kept:
        coded = [each.strip() for each in kept["content-encoding"].split(",")]
        left = ", ".join(each for each in coded if each and each != "aws-chunked")
        kept["content-encoding"] = left
    return ObjectRecord(
        etag="",
        content_type=headers.get("content-type") or DEFAULT_TYPE,
        headers={name: value for name, value in kept.items() if value},
        metadata=metadata,
        tags=checked_tags(parse_qsl(headers.get("x-amz-tagging", ""), keep_blank_values=True)),
    )


def checked_tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    tags = dict(pairs)
    if len(tags) != len(pairs):
        raise s3_error("InvalidTag", "Cannot provide multiple Tags with the same key")
    if len(tags) > _TAGS_MOST:
        raise s3_error("InvalidTag", "Object tags cannot be greater than 10")
    for name, value in tags.items():
        if not 1 <= len(name) <= 128 or len(value) > 256:
            raise s3_error("InvalidTag", f"The tag {name!r} or its value is too long or empty.")
    return tags


def shown(info: ObjectInfo, query: Mapping[str, str], *, with_checksum: bool) -> dict[str, str]:
    """For GET and HEAD, all but the length."""
    record = info.record
    headers = {
        "etag": f'"{record.etag}"',
        "last-modified": http_date(int(info.modified)),
        "accept-ranges": "bytes",
        "content-type": record.content_type,
    }
    headers.update(record.headers)
    for name, value in record.metadata.items():
        headers[_META + name] = value
    if record.tags:
        headers["x-amz-tagging-count"] = str(len(record.tags))
    if with_checksum:
        headers.update(checksum_headers(record))
    for name, header in _OVERRIDES.items():
        if name in query:
            headers[header] = _in_header(name, query[name])
    return headers


def _in_header(name: str, value: str) -> str:
    if _NOT_IN_HEADERS.search(value):
        text = "Header value cannot be represented using ISO-8859-1"
        raise s3_error("InvalidArgument", f"{text}: {name}={value[:64]!r}.")
    return value


@lru_cache(maxsize=4096)
def http_date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def checksum_headers(record: ObjectRecord) -> dict[str, str]:
    if not record.checksum:
        return {}
    return {
        HEADER + record.algorithm: record.checksum,
        "x-amz-checksum-type": record.checksum_type,
    }
