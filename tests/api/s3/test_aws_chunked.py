"""Signed chunks, made by the specification and split anywhere on the way."""

import base64
import hashlib
import http.client
import os
import zlib
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.s3.conftest import BUCKET, REGION, S3Endpoint
from tests.api.s3.test_object_calls import content, refused
from trackside.api.call import ServiceError
from trackside.api.s3.aws_chunked import ChunkedBody, ChunkSigner
from trackside.sigv4 import (
    EMPTY_SHA256,
    Request,
    Scope,
    Signature,
    sign,
    signature_of,
    signing_key,
)

SCOPE = Scope("key", "20260101", "eu-central-1", "s3")
STAMP = "20260101T000000Z"
SIGNATURE = Signature(SCOPE, STAMP, signing_key("secret", SCOPE), "0" * 64)
DATA = os.urandom(1000)


def encoded(
    chunks: list[bytes], trailers: dict[str, str], signature: Signature = SIGNATURE
) -> bytes:
    before, parts = signature.value, []
    stamp, scope = signature.timestamp, signature.scope
    for chunk in [*chunks, b""]:
        digest = hashlib.sha256(chunk).hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{stamp}\n{scope}\n{before}\n{EMPTY_SHA256}\n{digest}"
        before = sign(signature.key, text)
        end = b"\r\n" if chunk else b""
        parts.append(b"%x;chunk-signature=%b\r\n%b%b" % (len(chunk), before.encode(), chunk, end))
    if trailers:
        lines = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        digest = hashlib.sha256(lines.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{stamp}\n{scope}\n{before}\n{digest}"
        lines = lines.replace("\n", "\r\n")
        parts.append(f"{lines}x-amz-trailer-signature:{sign(signature.key, text)}\r\n".encode())
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


def put_signed(
    endpoint: S3Endpoint,
    chunks: list[bytes],
    *,
    trailers: dict[str, str],
    flipped: int | None = None,
) -> int:
    """The status of a PUT of the object 'k' in signed chunks; one bit of it may be flipped."""
    url = urlsplit(endpoint.url)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "content-encoding": "aws-chunked",
        "host": url.netloc,
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        + ("-TRAILER" if trailers else ""),
        "x-amz-date": now,
        "x-amz-decoded-content-length": str(sum(map(len, chunks))),
        **({"x-amz-trailer": ",".join(trailers)} if trailers else {}),
    }
    scope = Scope(endpoint.key_id, now[:8], REGION, "s3")
    request = Request("PUT", f"/{BUCKET}/k", "", headers)
    names = sorted(headers)
    form = headers["x-amz-content-sha256"]
    signature = signature_of(request, form, names, scope, now, endpoint.secret)
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={endpoint.key_id}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature.value}"
    )
    body = bytearray(encoded(chunks, trailers, signature))
    if flipped is not None:
        body[flipped] ^= 1
    with closing(http.client.HTTPConnection(url.netloc, timeout=60)) as connection:
        connection.request("PUT", request.path, bytes(body), headers)
        return connection.getresponse().status


def crc32_trailer(data: bytes) -> dict[str, str]:
    checksum = zlib.crc32(data).to_bytes(4, "big")
    return {"x-amz-checksum-crc32": base64.b64encode(checksum).decode()}


@pytest.mark.parametrize("sizes", [[], [5], [65536] * 3 + [7], [2 << 20, 1]], ids=str)
@pytest.mark.parametrize("with_trailer", [False, True])
def test_signed_chunks_arrive_as_the_object(endpoint, s3, sizes, with_trailer):
    chunks = [os.urandom(size) for size in sizes]
    data = b"".join(chunks)
    assert put_signed(endpoint, chunks, trailers=crc32_trailer(data) if with_trailer else {}) == 200
    got = s3.get_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == data
    if with_trailer:
        assert got["ChecksumCRC32"] == crc32_trailer(data)["x-amz-checksum-crc32"]


@pytest.mark.parametrize("flipped", [10, 200, 70_000, -120, -40])
def test_a_signed_chunk_or_trailer_that_was_changed_stores_nothing(endpoint, s3, flipped):
    chunks = [os.urandom(65536), os.urandom(10_000)]
    trailers = crc32_trailer(b"".join(chunks))
    assert put_signed(endpoint, chunks, trailers=trailers, flipped=flipped) in (400, 403)
    assert refused(s3.get_object, Bucket=BUCKET, Key="k") == ("NoSuchKey", 404)
    assert put_signed(endpoint, chunks, trailers=crc32_trailer(b"other")) == 400
    assert put_signed(endpoint, chunks, trailers=trailers) == 200
    assert content(s3, "k") == b"".join(chunks)
