"""Metadata of an object beside its bytes: ETag, headers, user metadata, checksum, tags.

Stored in an extended attribute of the file, written before the file gets its name, so that both
appear at once. Where attributes are unsupported or too small, it is a file named after that version
of the object. Files from other programs have no record and are objects all the same; so are those
whose record is damaged.
"""

import errno
import json
import logging
import mimetypes
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackside.api.s3.beneath import NO_FILE, open_file, open_folder
from trackside.api.s3.checksums import ALGORITHMS
from trackside.files import durable
from trackside.storage.folder import HIDDEN, version_of

logger = logging.getLogger(__name__)

DEFAULT_TYPE = "binary/octet-stream"
STORED_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
)
RECORDS = (HIDDEN, "records")
"""Below a bucket's root: the folder for records that do not fit into file attributes."""
_ATTRIBUTE = "user.trackside.object"
_ATTRIBUTE_MOST_BYTES = 3500
"""ext4 has one block for all attributes of a file."""
_NO_SPACE = (errno.ENOTSUP, errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EPERM)
_SIDECAR_MOST_BYTES = 4 << 20
_IN_HEADERS = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    etag: str
    content_type: str = DEFAULT_TYPE
    headers: dict[str, str] = field(default_factory=dict)
    """Returned as they were given: cache-control, content-encoding, …"""
    metadata: dict[str, str] = field(default_factory=dict)
    """The user's, without x-amz-meta-."""
    algorithm: str = ""
    checksum: str = ""
    checksum_type: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    parts: list[list[Any]] = field(default_factory=list)
    """Of a multipart upload: size and checksum of each."""
    upload: str = ""
    """The upload that created it, so that completing it twice is the same as once."""
    key: str = ""
    """Only where the file's name does not contain it."""


_NAMES = [each.name for each in fields(ObjectRecord)]
_TYPES = {"headers": dict, "metadata": dict, "tags": dict, "parts": list}
"""Of the members that are no texts."""


def record_of(kept: dict[str, Any]) -> ObjectRecord:
    """From its JSON. ValueError for an invalid record: users who can write to a bucket's folder can
    write one, too, and much of it becomes response headers."""
    for name, value in kept.items():
        if type(value) is not _TYPES.get(name, str):
            raise ValueError(f"{name!r} is a {type(value).__name__}")
        if type(value) is dict and not all(type(text) is str for text in value.values()):
            raise ValueError(f"{name!r} has a value that is not a string")
    if not _are_parts(kept.get("parts", [])):
        raise ValueError("parts are no sizes and checksums")
    try:
        record = ObjectRecord(**kept)
    except TypeError:
        raise ValueError(f"its members are {', '.join(kept)}") from None
    _check_headers(record)
    return record


def write_record(descriptor: int, record: ObjectRecord, root: str) -> os.stat_result:
    """`root` is the bucket's, for records that do not fit into the file's attributes.

    Returns the status of the file that the record is for.
    """
    status = os.fstat(descriptor)
    kept = {name: value for name in _NAMES if (value := getattr(record, name))}
    stamped = {"size": status.st_size, "modified": status.st_mtime_ns, **kept}
    data = json.dumps(stamped, separators=(",", ":")).encode()
    if not _is_attribute_written(descriptor, data):
        with suppress(OSError, AttributeError):  # an older record there would be believed
            os.removexattr(descriptor, _ATTRIBUTE)
        with open_folder(root, RECORDS, make=True) as folder:
            durable.write_bytes(Path(folder.path, _sidecar(status)), data)
    return status


def read_record(file: int | str, status: os.stat_result, key: str, root: str) -> ObjectRecord:
    """Of an open file, or by its path. For a file that was changed since, only what its status
    shows."""
    data = _attribute(file) or _sidecar_data(root, status)
    if data:
        try:
            kept = json.loads(data)
            if (kept.pop("size"), kept.pop("modified")) == (status.st_size, status.st_mtime_ns):
                record = record_of(kept)
                if record.parts and sum(size for size, _ in record.parts) != status.st_size:
                    raise ValueError("its parts have another size")
                return record
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            logger.warning("the record of object %r in %s is damaged: %s", key, root, error)
    kind = mimetypes.guess_type(key)[0] or DEFAULT_TYPE
    return ObjectRecord(etag=version_of(status), content_type=kind)


def drop_record(status: os.stat_result, root: str) -> None:
    """After that version of the object was removed."""
    with suppress(*NO_FILE), open_folder(root, RECORDS) as folder:
        os.unlink(_sidecar(status), dir_fd=folder.descriptor)


def _are_parts(parts: list[Any]) -> bool:
    return all(type(part) is list and [type(each) for each in part] == [int, str] for part in parts)


def _check_headers(record: ObjectRecord) -> None:
    if record.headers and not record.headers.keys() <= set(STORED_HEADERS):
        raise ValueError("unknown headers")
    if record.algorithm and record.algorithm not in ALGORITHMS:
        raise ValueError(f"the algorithm {record.algorithm!r} is unknown")
    values = (record.etag, record.content_type, record.checksum, record.checksum_type)
    text = "".join((*values, *record.headers.values(), *record.metadata.values()))
    if not _IN_HEADERS.fullmatch(text) or not _HEADER_NAME.fullmatch("".join(record.metadata)):
        raise ValueError("no header can hold it")


def _is_attribute_written(descriptor: int, data: bytes) -> bool:
    if not hasattr(os, "setxattr") or len(data) > _ATTRIBUTE_MOST_BYTES:
        return False
    try:
        os.setxattr(descriptor, _ATTRIBUTE, data)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        return False
    return True


def _attribute(file: int | str) -> bytes | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(file, _ATTRIBUTE, follow_symlinks=isinstance(file, int))
    except OSError:  # none, or none to be had here
        return None


def _sidecar(status: os.stat_result) -> str:
    return f"{version_of(status)}.json"


def _sidecar_data(root: str, status: os.stat_result) -> bytes | None:
    if not os.access(os.path.join(root, *RECORDS), os.F_OK):  # nearly always
        return None
    try:
        descriptor = open_file(root, (*RECORDS, _sidecar(status)), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        return stream.read(_SIDECAR_MOST_BYTES)
