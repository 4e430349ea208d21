"""A request body as it arrives: decoded, hashed and passed on, and at the end checked against
everything that the client announced. The caller decides where the bytes are written."""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trackside.api.s3.aws_chunked import ChunkedBody, ChunkSigner
from trackside.api.s3.checksums import (
    ALGORITHMS,
    DEFAULT,
    HEADER,
    Digest,
    algorithm_named,
    check_form,
    checksum_given,
    encoded,
    new_digest,
)
from trackside.api.s3.errors import s3_error
from trackside.api.s3.target import whole_number
from trackside.sigv4 import UNSIGNED, Signature

OBJECT_MOST_BYTES = 5 << 40
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STREAMING = "STREAMING-"
SIGNED_STREAMS = (
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
)
_UNSIGNED_STREAM = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(frozen=True, slots=True)
class Arrived:
    size: int
    md5: bytes
    algorithm: str
    """Of the stored checksum."""
    checksum: str
    requested: tuple[str, str]
    """The algorithm that the client requested, which may differ, and its checksum."""


class VerifiedBody:
    """`feed` and `finish` may run in any thread, one at a time."""

    def __init__(
        self,
        headers: Mapping[str, str],
        signature: Signature,
        write: Callable[[bytes, int], None],
        kept: str | None = None,
    ) -> None:
        """`kept` is the algorithm that a multipart upload was created with."""
        self.size = announced_size(headers)
        self._headers = headers
        self._write = write
        self._position = 0
        self._given = checksum_given(headers)
        self._trailer = trailer_named(headers)
        self._requested = self._requested_algorithm(kept)
        self._kept = kept or self._requested
        self._chunked = _chunked_form(headers, signature)
        self._content_md5 = _content_md5(headers)
        sha256 = headers.get("x-amz-content-sha256", UNSIGNED)
        self._sha256 = sha256 if _SHA256.fullmatch(sha256) else None
        names = {"md5", self._requested, self._kept} | ({"sha256"} if self._sha256 else set())
        self._digests: dict[str, Digest] = {name: new_digest(name) for name in names}

    def feed(self, pieces: Iterable[bytes]) -> None:
        for raw in pieces:
            for data in (raw,) if self._chunked is None else self._chunked.data(raw):
                if self.size is not None and self._position + len(data) > self.size:
                    raise s3_error("IncompleteBody", f"More came than {self.size} bytes.")
                for digest in self._digests.values():
                    digest.update(data)
                self._write(data, self._position)
                self._position += len(data)

    def finish(self) -> Arrived:
        if self._chunked is not None:
            self._chunked.finish()
        if self.size is not None and self._position != self.size:
            text = f"{self.size} bytes were announced, {self._position} came."
            raise s3_error("IncompleteBody", text)
        digests = {name: digest.digest() for name, digest in self._digests.items()}
        if self._sha256 is not None and digests["sha256"].hex() != self._sha256:
            raise s3_error("XAmzContentSHA256Mismatch")
        if self._content_md5 is not None and digests["md5"] != self._content_md5:
            raise s3_error("BadDigest", "The Content-MD5 you specified did not match our own.")
        requested = encoded(digests[self._requested])
        expected = self._expected()
        if expected is not None and not hmac.compare_digest(expected, requested):
            name = self._requested.upper()
            text = f"The {name} you specified did not match the calculated checksum."
            raise s3_error("BadDigest", text)
        kept = encoded(digests[self._kept])
        return Arrived(
            self._position, digests["md5"], self._kept, kept, (self._requested, requested)
        )

    def _requested_algorithm(self, kept: str | None) -> str:
        named = algorithm_named(self._headers, "x-amz-sdk-checksum-algorithm")
        given = self._given[0] if self._given else self._trailer
        if named and given and named != given:
            text = f"x-amz-sdk-checksum-algorithm is {named!r}, the checksum is {given!r}."
            raise s3_error("InvalidRequest", text)
        requested = given or named or kept or DEFAULT
        # The default is for clients that named none at the start; others must keep to theirs.
        if kept not in (None, DEFAULT, requested):
            text = f"Checksum Type mismatch occurred, expected {kept}, got {requested}."
            raise s3_error("InvalidRequest", text)
        return requested

    def _expected(self) -> str | None:
        if self._given is not None:
            return self._given[1]
        if self._trailer is None:
            return None
        value = self._chunked.trailers.get(HEADER + self._trailer) if self._chunked else None
        if value is None:
            raise s3_error("MalformedTrailerError", f"The trailer {self._trailer!r} is missing.")
        check_form(self._trailer, value)
        return value


def announced_size(headers: Mapping[str, str]) -> int | None:
    """Of the object, not of its chunks; None where only the end of the HTTP body shows it."""
    is_stream = headers.get("x-amz-content-sha256", "").startswith(_STREAMING)
    name = "x-amz-decoded-content-length" if is_stream else "content-length"
    text = headers.get(name, "")
    if not text and not is_stream and "transfer-encoding" in headers:
        return None
    size = whole_number(text)
    if size is None:
        raise s3_error("MissingContentLength", f"You must provide the {name} header, a number.")
    if size > OBJECT_MOST_BYTES:
        raise s3_error("EntityTooLarge")
    return size


def trailer_named(headers: Mapping[str, str]) -> str | None:
    """The algorithm of the checksum after the body."""
    name = headers.get("x-amz-trailer", "").strip().lower()
    if not name:
        return None
    algorithm = name.removeprefix(HEADER)
    if algorithm == name or algorithm not in ALGORITHMS:
        raise s3_error("InvalidRequest", f"The trailer {name!r} is not understood.")
    return algorithm


def _chunked_form(headers: Mapping[str, str], signature: Signature) -> ChunkedBody | None:
    form = headers.get("x-amz-content-sha256", UNSIGNED)
    if form in SIGNED_STREAMS:
        return ChunkedBody(ChunkSigner(signature))
    if form == _UNSIGNED_STREAM:
        return ChunkedBody(None)
    if form != UNSIGNED and _SHA256.fullmatch(form) is None:
        raise s3_error("InvalidArgument", f"x-amz-content-sha256: {form!r} is not understood.")
    return None


def _content_md5(headers: Mapping[str, str]) -> bytes | None:
    text = headers.get("content-md5")
    if text is None:
        return None
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != 16:
        raise s3_error("InvalidDigest")
    return digest
