"""What S3 keeps of an object beside its bytes: ETag, headers, user metadata, checksum, tags.

One extended attribute of the file, written before the file gets its name, so that both appear at
once. Where attributes are missing or too small it is a file named after the very version it tells
of. Files that others wrote have none and are objects all the same.
"""

import errno
import json
import mimetypes
import os
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackside import durable
from trackside.storage.folder import version_of

DEFAULT_TYPE = "binary/octet-stream"
_ATTRIBUTE = "user.trackside.object"
_ATTRIBUTE_MOST_BYTES = 3500
"""ext4 has one block for all attributes of a file."""
_NO_ROOM = (errno.ENOTSUP, errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EPERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    etag: str
    content_type: str = DEFAULT_TYPE
    headers: dict[str, str] = field(default_factory=dict)
    """Those that come back as they were given: cache-control, content-encoding, …"""
    metadata: dict[str, str] = field(default_factory=dict)
    """The user's, without x-amz-meta-."""
    algorithm: str = ""
    checksum: str = ""
    checksum_type: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    parts: list[list[Any]] = field(default_factory=list)
    """Of a multipart upload: size and checksum of each."""
    upload: str = ""
    """The upload it came by, so that completing it twice is the same as once."""
    key: str = ""
    """Only where the file's name does not tell it."""


_NAMES = [each.name for each in fields(ObjectRecord)]


def write_record(descriptor: int, record: ObjectRecord, beside: str) -> os.stat_result:
    """`beside` is the folder for what finds no room in the file's attributes.

    Returns the state of the file that the record tells of.
    """
    status = os.fstat(descriptor)
    kept = {name: value for name in _NAMES if (value := getattr(record, name))}
    stamped = {"size": status.st_size, "modified": status.st_mtime_ns, **kept}
    data = json.dumps(stamped, separators=(",", ":")).encode()
    if not _is_attribute_written(descriptor, data):
        with suppress(OSError, AttributeError):  # an older record there would be believed
            os.removexattr(descriptor, _ATTRIBUTE)
        os.makedirs(beside, exist_ok=True)
        durable.write_bytes(_sidecar(beside, status), data)
    return status


def read_record(file: int | str, status: os.stat_result, name: str, beside: str) -> ObjectRecord:
    """Of an open file or a path. A file that was changed since has only what its looks tell."""
    data = _attribute(file) or _sidecar_data(beside, status)
    if data:
        kept = json.loads(data)
        if (kept.pop("size"), kept.pop("modified")) == (status.st_size, status.st_mtime_ns):
            return ObjectRecord(**kept)
    kind = mimetypes.guess_type(name)[0] or DEFAULT_TYPE
    return ObjectRecord(etag=version_of(status), content_type=kind)


def drop_record(status: os.stat_result, beside: str) -> None:
    """After the version it tells of is gone."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(_sidecar(beside, status))


def _is_attribute_written(descriptor: int, data: bytes) -> bool:
    if not hasattr(os, "setxattr") or len(data) > _ATTRIBUTE_MOST_BYTES:
        return False
    try:
        os.setxattr(descriptor, _ATTRIBUTE, data)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        return False
    return True


def _attribute(file: int | str) -> bytes | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(file, _ATTRIBUTE)
    except OSError:  # none, or none to be had here
        return None


def _sidecar(beside: str, status: os.stat_result) -> Path:
    return Path(beside, f"{version_of(status)}.json")


def _sidecar_data(beside: str, status: os.stat_result) -> bytes | None:
    try:
        descriptor = os.open(f"{beside}/{version_of(status)}.json", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        return stream.read()
