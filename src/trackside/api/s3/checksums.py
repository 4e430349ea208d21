"""The checksums of S3: of a stream, of parts together, and as they are written in headers.

The CRCs are computed by awscrt and ISA-L, at tens of gigabytes a second; hashlib has the rest.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from awscrt.checksums import (
    combine_crc32,
    combine_crc32c,
    combine_crc64nvme,
    crc32c,
    crc64nvme,
)
from isal.isal_zlib import crc32

from trackside.api.s3.errors import s3_error

DEFAULT = "crc64nvme"
"""What S3 computes where the client requests none."""
FULL, COMPOSITE = "FULL_OBJECT", "COMPOSITE"
HEADER = "x-amz-checksum-"

_Crc = Callable[[bytes, int], int]
_CRCS: dict[str, tuple[_Crc, int, Callable[[int, int, int], int]]] = {
    "crc32": (crc32, 4, combine_crc32),
    "crc32c": (crc32c, 4, combine_crc32c),
    "crc64nvme": (crc64nvme, 8, combine_crc64nvme),
}
"""Function, bytes of the result, and how the results of neighbours are joined."""
_HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
ALGORITHMS = (*_CRCS, *_HASHES)
"""In headers as in records, in lower case."""


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class CrcDigest:
    """A CRC in the form of hashlib's objects."""

    def __init__(self, algorithm: str) -> None:
        self._function, self._size, _ = _CRCS[algorithm]
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


@dataclass(frozen=True, slots=True)
class PartSum:
    """One part's size and checksum."""

    size: int
    value: str
    """In base 64, as in headers."""


def new_digest(algorithm: str) -> Digest:
    """Of one of `ALGORITHMS`, or `md5` for ETags."""
    if algorithm == "md5":
        return hashlib.md5(usedforsecurity=False)
    return CrcDigest(algorithm) if algorithm in _CRCS else _HASHES[algorithm]()


def encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def encoded_size(algorithm: str) -> int:
    """In bytes, of a checksum as headers have it."""
    return (_digest_size(algorithm) + 2) // 3 * 4


def checksum_given(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """The algorithm and value that came as a header; more than one is rejected."""
    given = [(name, headers[HEADER + name]) for name in ALGORITHMS if HEADER + name in headers]
    if len(given) > 1:
        raise s3_error("InvalidRequest", "Expecting a single x-amz-checksum- header.")
    for name, value in given:
        check_form(name, value)
    return given[0] if given else None


def algorithm_named(headers: Mapping[str, str], header: str) -> str | None:
    name = headers.get(header)
    if name is None:
        return None
    if name.lower() not in ALGORITHMS:
        known = ", ".join(ALGORITHMS).upper()
        raise s3_error("InvalidRequest", f"{header}: {name!r} is none of {known}.")
    return name.lower()


def check_form(algorithm: str, value: str) -> None:
    try:
        right = len(base64.b64decode(value, validate=True)) == _digest_size(algorithm)
    except (binascii.Error, ValueError):
        right = False
    if not right:
        text = f"Value for {HEADER}{algorithm} header is invalid."
        raise s3_error("InvalidRequest", text)


def default_type(algorithm: str) -> str:
    """Of a multipart upload whose client names none."""
    return FULL if algorithm == "crc64nvme" else COMPOSITE


def of_parts(algorithm: str, kind: str, parts: Sequence[PartSum]) -> str:
    """The object's checksum from those of its parts, without reading its data."""
    raw = [base64.b64decode(part.value) for part in parts]
    if kind == COMPOSITE:
        digest = new_digest(algorithm)
        digest.update(b"".join(raw))
        return f"{encoded(digest.digest())}-{len(parts)}"
    _, size, combine = _CRCS[algorithm]
    total = int.from_bytes(raw[0], "big")
    for part, each in zip(parts[1:], raw[1:], strict=True):
        total = combine(total, int.from_bytes(each, "big"), part.size)
    return encoded(total.to_bytes(size, "big"))


def check_type(algorithm: str, kind: str) -> None:
    if kind not in (FULL, COMPOSITE):
        raise s3_error("InvalidRequest", f"x-amz-checksum-type: {kind!r} is unknown.")
    impossible = algorithm in _HASHES if kind == FULL else algorithm == "crc64nvme"
    if impossible:
        text = f"The {kind} checksum type cannot be used with the {algorithm} checksum algorithm."
        raise s3_error("InvalidRequest", text)


def _digest_size(algorithm: str) -> int:
    return _CRCS[algorithm][1] if algorithm in _CRCS else _HASHES[algorithm]().digest_size
