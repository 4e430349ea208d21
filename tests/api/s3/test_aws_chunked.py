"""Signed chunks, made as the specification says and cut anywhere on the way."""

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.api.call import ServiceError
from trackside.api.s3.aws_chunked import ChunkedBody, ChunkSigner
from trackside.api.sigv4 import EMPTY_SHA256, Scope, Signature, sign, signing_key

SCOPE = Scope("key", "20260101", "eu-central-1", "s3")
STAMP = "20260101T000000Z"
SIGNATURE = Signature(SCOPE, STAMP, signing_key("secret", SCOPE), "0" * 64)
DATA = os.urandom(1000)


def encoded(chunks: list[bytes], trailers: dict[str, str]) -> bytes:
    before, parts = SIGNATURE.value, []
    for chunk in [*chunks, b""]:
        digest = hashlib.sha256(chunk).hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{STAMP}\n{SCOPE}\n{before}\n{EMPTY_SHA256}\n{digest}"
        before = sign(SIGNATURE.key, text)
        end = b"\r\n" if chunk else b""
        parts.append(b"%x;chunk-signature=%b\r\n%b%b" % (len(chunk), before.encode(), chunk, end))
    if trailers:
        lines = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        digest = hashlib.sha256(lines.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{STAMP}\n{SCOPE}\n{before}\n{digest}"
        lines = lines.replace("\n", "\r\n")
        parts.append(f"{lines}x-amz-trailer-signature:{sign(SIGNATURE.key, text)}\r\n".encode())
    return b"".join([*parts, b"\r\n"])


def decoded(raw: bytes, cuts: list[int]) -> tuple[bytes, dict[str, str]]:
    body = ChunkedBody(ChunkSigner(SIGNATURE))
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    found = b""
    for start, end in zip(places, places[1:], strict=False):
        found += b"".join(body.data(raw[start:end]))
    body.finish()
    return found, body.trailers


TRAILERS = {"x-amz-checksum-crc32": "AAAAAA=="}


@given(st.lists(st.integers(1, 300), max_size=4), st.lists(st.integers(0), max_size=9))
def test_chunks_are_read_however_they_are_cut(sizes, cuts):
    chunks = [DATA[:size] for size in sizes]
    assert decoded(encoded(chunks, {}), cuts) == (b"".join(chunks), {})
    assert decoded(encoded(chunks, TRAILERS), cuts) == (b"".join(chunks), TRAILERS)


@given(st.integers(0, 10_000))
def test_no_byte_can_be_changed_on_the_way(position):
    raw = bytearray(encoded([DATA[:200], DATA[200:300]], TRAILERS))
    raw[position % len(raw)] ^= 1
    try:
        found, trailers = decoded(bytes(raw), [])
    except ServiceError:
        return
    assert (found, trailers) == (DATA[:300], TRAILERS)  # a line end or a capital


@pytest.mark.parametrize("left", [0, 10, 200, -1])
def test_a_body_that_ends_early_is_incomplete(left):
    raw = encoded([DATA[:200]], TRAILERS)
    with pytest.raises(ServiceError, match="IncompleteBody"):
        decoded(raw[: left if left >= 0 else len(raw) - 2], [])
