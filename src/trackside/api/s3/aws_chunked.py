"""The `aws-chunked` encoding of a body: sized chunks, optionally signed, and trailers at the end.

Fed with bytes as they arrive; independent of their destination.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto

from trackside.api.s3.errors import s3_error
from trackside.sigv4 import EMPTY_SHA256, Signature, sign

_LINE_MOST_BYTES = 16 << 10
_TRAILERS_MOST = 16
_HEAD = re.compile(rb"([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?")
TRAILER_SIGNATURE = "x-amz-trailer-signature"


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    DONE = auto()


class ChunkSigner:
    """Each chunk's signature continues the previous one; the first continues the request's own."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._before = signature.value

    def check_chunk(self, sha256: str, claimed: str) -> None:
        _check(self.of_chunk(sha256), claimed)

    def check_trailers(self, trailers: Mapping[str, str], claimed: str) -> None:
        _check(self.of_trailers(trailers), claimed)

    def of_chunk(self, sha256: str) -> str:
        return self._next("PAYLOAD", f"{EMPTY_SHA256}\n{sha256}")

    def of_trailers(self, trailers: Mapping[str, str]) -> str:
        text = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        return self._next("TRAILER", hashlib.sha256(text.encode()).hexdigest())

    def _next(self, kind: str, rest: str) -> str:
        start = f"AWS4-HMAC-SHA256-{kind}\n{self._signature.timestamp}\n{self._signature.scope}"
        self._before = sign(self._signature.key, f"{start}\n{self._before}\n{rest}")
        return self._before


class ChunkedBody:
    def __init__(self, signer: ChunkSigner | None) -> None:
        self.trailers: dict[str, str] = {}
        self._signer = signer
        self._state = _State.SIZE
        self._line = b""
        self._left = 0
        self._claimed = ""
        self._hash = hashlib.sha256()

    def data(self, raw: bytes) -> Iterator[bytes]:
        """What of these bytes is the object's."""
        position = 0
        while position < len(raw) and self._state is not _State.DONE:
            if self._state is _State.DATA:
                piece = raw[position : position + self._left]
                position += len(piece)
                self._take(piece)
                yield piece
                continue
            end = raw.find(b"\n", position) + 1
            self._line += raw[position : end or len(raw)]
            if len(self._line) > _LINE_MOST_BYTES:
                raise s3_error("InvalidRequest", "A line of the aws-chunked body has no end.")
            if not end:
                return
            position = end
            line, self._line = self._line.rstrip(b"\r\n"), b""
            self._read(line)

    def finish(self) -> None:
        if self._state is not _State.DONE:
            raise s3_error("IncompleteBody")

    def _take(self, piece: bytes) -> None:
        if self._signer is not None:
            self._hash.update(piece)
        self._left -= len(piece)
        if not self._left:
            self._check_chunk()
            self._state = _State.DATA_END

    def _read(self, line: bytes) -> None:
        if self._state is _State.DATA_END:
            if line:
                raise s3_error("IncompleteBody", "A chunk is longer than announced.")
            self._state = _State.SIZE
        elif self._state is _State.SIZE:
            self._read_size(line)
        else:
            self._read_trailer(line)

    def _read_size(self, line: bytes) -> None:
        matched = _HEAD.fullmatch(line)
        if matched is None or (self._signer is not None) != (matched[2] is not None):
            raise s3_error("InvalidRequest", "The body is not in the announced aws-chunked form.")
        self._left = int(matched[1], 16)
        self._claimed = (matched[2] or b"").decode()
        self._state = _State.DATA
        if not self._left:
            self._check_chunk()
            self._state = _State.TRAILER

    def _check_chunk(self) -> None:
        if self._signer is not None:
            self._signer.check_chunk(self._hash.hexdigest(), self._claimed)
            self._hash = hashlib.sha256()

    def _read_trailer(self, line: bytes) -> None:
        if line:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or len(self.trailers) == _TRAILERS_MOST:
                raise s3_error("MalformedTrailerError")
            self.trailers[name.strip().lower()] = value.strip()
            return
        claimed = self.trailers.pop(TRAILER_SIGNATURE, None)
        if self._signer is not None and (self.trailers or claimed):
            self._signer.check_trailers(self.trailers, claimed or "")
        self._state = _State.DONE


def _check(expected: str, claimed: str) -> None:
    if not hmac.compare_digest(expected.encode(), claimed.encode()):
        raise s3_error("SignatureDoesNotMatch", "The signature of a chunk is wrong.")
