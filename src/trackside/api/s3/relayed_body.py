"""A body being relayed: the same bytes, verified against the client's signature.

Its last bytes are passed on only after that, so that a store never gets a wrong body completely.
"""

import hashlib
from collections.abc import AsyncIterator

from trackside.api.s3.aws_chunked import TRAILER_SIGNATURE, ChunkedBody, ChunkSigner
from trackside.api.s3.checksums import HEADER, check_form, encoded_size
from trackside.api.s3.errors import s3_error

CHUNK_BYTES = 64 << 10
"""Stores require at least 8 KiB; each is held here until it is signed."""
_SIGNATURE_BYTES = 64


async def hashed(chunks: AsyncIterator[bytes], sha256: str) -> AsyncIterator[bytes]:
    """XAmzContentSHA256Mismatch when it has another hash than was signed."""
    digest, held = hashlib.sha256(), b""
    async for chunk in chunks:
        if held:
            yield held
        digest.update(chunk)
        held = chunk
    if digest.hexdigest() != sha256:
        raise s3_error("XAmzContentSHA256Mismatch")
    if held:
        yield held


async def re_signed(
    chunks: AsyncIterator[bytes],
    incoming: ChunkSigner,
    outgoing: ChunkSigner,
    size: int,
    trailer: str | None,
) -> AsyncIterator[bytes]:
    """The chunks of an `aws-chunked` body, verified, and signed for the store in chunks of our
    size.

    `size` is that of the object, `trailer` the algorithm of the checksum at the end.
    """
    decoder, held, arrived = ChunkedBody(incoming), bytearray(), 0
    async for raw in chunks:
        for data in decoder.data(raw):
            held += data
            arrived += len(data)
        if arrived > size:
            raise s3_error("IncompleteBody", f"More came than {size} bytes.")
        while len(held) >= CHUNK_BYTES:
            yield _chunk(outgoing, bytes(held[:CHUNK_BYTES]))
            del held[:CHUNK_BYTES]
    decoder.finish()
    if arrived != size:
        raise s3_error("IncompleteBody", f"{size} bytes were announced, {arrived} came.")
    _check_trailers(decoder.trailers, trailer)
    last = _chunk(outgoing, bytes(held)) if held else b""
    yield last + _chunk(outgoing, b"", end=b"") + _trailers(outgoing, decoder.trailers)


def re_signed_size(size: int, trailer: str | None) -> int:
    """The number of bytes that `re_signed` makes of an object's; the store needs it in advance."""
    whole, rest = divmod(size, CHUNK_BYTES)
    total = whole * _chunk_size(CHUNK_BYTES) + (_chunk_size(rest) if rest else 0) + _chunk_size(0)
    if trailer is not None:
        total += len(f"{HEADER}{trailer}:\r\n") + encoded_size(trailer)
        total += len(f"{TRAILER_SIGNATURE}:\r\n") + _SIGNATURE_BYTES
    return total


def _chunk_size(size: int) -> int:
    return len(_line(size, "0" * _SIGNATURE_BYTES)) + size + len(b"\r\n")


def _check_trailers(trailers: dict[str, str], announced: str | None) -> None:
    if list(trailers) != ([] if announced is None else [HEADER + announced]):
        raise s3_error("MalformedTrailerError", f"The trailers that came are {list(trailers)}.")
    if announced is not None:
        check_form(announced, trailers[HEADER + announced])


def _chunk(signer: ChunkSigner, data: bytes, end: bytes = b"\r\n") -> bytes:
    return _line(len(data), signer.of_chunk(hashlib.sha256(data).hexdigest())) + data + end


def _line(size: int, signature: str) -> bytes:
    return f"{size:x};chunk-signature={signature}\r\n".encode()


def _trailers(signer: ChunkSigner, trailers: dict[str, str]) -> bytes:
    lines = [f"{name}:{value}\r\n" for name, value in trailers.items()]
    if trailers:
        lines.append(f"{TRAILER_SIGNATURE}:{signer.of_trailers(trailers)}\r\n")
    return "".join([*lines, "\r\n"]).encode("latin-1")
