"""The bytes inside a .tar.gz, read sequentially and never beyond a limit.

Bounds the memory in use. `tar_reader` interprets the bytes.
"""

import gzip
from collections.abc import Iterator
from typing import IO

CHUNK_BYTES = 1 << 18
"""Read-ahead: enough to make the many small reads of headers cheap."""


class BeyondLimit(Exception):
    """The archive holds more than its reader allows."""


class DamagedTar(ValueError):
    """The bytes are no valid tar archive."""


class TarStream:
    def __init__(self, file: IO[bytes], *, most_bytes: int) -> None:
        self._source = gzip.GzipFile(fileobj=file)
        self._most_bytes = most_bytes
        self._bytes_read = 0
        self._held = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end."""
        end = self._at + size
        if end > len(self._held):
            return b"".join(self._pieces(size))
        taken = self._held[self._at : end]
        self._at = end
        return taken

    def pieces(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes in pieces; an archive that ends before that is damaged."""
        for piece in self._pieces(size):
            size -= len(piece)
            yield piece
        if size:
            raise DamagedTar("it ends inside a member")

    def skip(self, size: int) -> None:
        if self._at + size <= len(self._held):
            self._at += size
            return
        for _ in self.pieces(size):
            pass

    def drain(self) -> bool:
        """Read to the end, where gzip has its checksum; whether there was more than padding."""
        has_more = bool(self._held[self._at :].strip(b"\0"))
        while self._refill():
            has_more = has_more or bool(self._held.strip(b"\0"))
        return has_more

    def _pieces(self, size: int) -> Iterator[memoryview]:
        while size:
            if self._at == len(self._held) and not self._refill():
                return
            piece = memoryview(self._held)[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def _refill(self) -> bool:
        self._held = self._source.read(CHUNK_BYTES)
        self._at = 0
        self._bytes_read += len(self._held)
        if self._bytes_read > self._most_bytes:
            raise BeyondLimit(f"more than {self._most_bytes:,} bytes, headers and padding included")
        return bool(self._held)
