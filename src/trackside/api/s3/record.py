"""What S3 keeps of an object beside its bytes: ETag, headers, user metadata, checksum, tags.

One extended attribute of the file, written before the file gets its name, so that both appear at
once. Where attributes are missing or too small it is a file named after the very version it tells
of. Files that others wrote have none and are objects all the same.
"""

import errno
import json
import mimetypes
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackside import damage, durable
from trackside.json_record import DamagedRecord, parsed_object
from trackside.json_record import record as make
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


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PLAIN = re.compile(r"[A-Za-z0-9+/=_.:-]*")
_TAG = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]*")
"""What XML can hold."""
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
    """Of an open file or a path. A file that was changed since, or whose record is damaged, has
    only what its looks tell."""
    data = _attribute(file) or _sidecar_data(beside, status)
    if data:
        try:
            kept = parsed_object(data)
            written = (kept.get("size"), kept.get("modified"))
            if written == (status.st_size, status.st_mtime_ns):
                return _checked(make(ObjectRecord, kept))
        except DamagedRecord as error:
            damage.say_once(f"the record of object {name!r}", f"{error}; it is left out")
    kind = mimetypes.guess_type(name)[0] or DEFAULT_TYPE
    return ObjectRecord(etag=version_of(status), content_type=kind)


def _checked(record: ObjectRecord) -> ObjectRecord:
    """The same, if all of it can be told in headers and XML; else `DamagedRecord`."""
    names = (*record.headers, *record.metadata)
    values = (record.content_type, *record.headers.values(), *record.metadata.values())
    plain = (record.etag, record.algorithm, record.checksum, record.checksum_type)
    sums = [each[1] for each in record.parts if _is_part(each)]
    is_sound = (
        all(map(_HEADER_NAME.fullmatch, names))
        and all(map(_HEADER_VALUE.fullmatch, values))
        and all(map(_PLAIN.fullmatch, (*plain, *sums)))
        and all(map(_TAG.fullmatch, (*record.tags, *record.tags.values())))
        and len(sums) == len(record.parts)
    )
    if not is_sound:
        raise DamagedRecord("it tells what no header can")
    try:
        os.fsencode(record.key)
    except UnicodeEncodeError:
        raise DamagedRecord("its key is no name") from None
    return record


def _is_part(part: list[Any]) -> bool:
    """Of an upload: size and checksum."""
    return len(part) == 2 and type(part[0]) is int and part[0] >= 0 and isinstance(part[1], str)


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
