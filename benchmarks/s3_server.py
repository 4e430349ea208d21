"""A read-only S3 server for benchmarks: `python -m benchmarks.s3_server FOLDER`, port on stdout.

Lists, stats and sends the files of FOLDER/BUCKET over plain HTTP, whole or by range, with sendfile.
Signatures are not checked: every client pays for signing, none for our checking.
"""

import asyncio
import hashlib
import os
import sys
from bisect import bisect_right
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000
PART_BYTES = 8 << 20
"""Larger files carry the ETag of a multipart upload in parts of this size."""


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    size: int
    etag: str
    modified: float
    body: bytes | None
    """Held in memory when small, so that the server's disk is not what is measured."""


class Bucket:
    def __init__(self, root: Path) -> None:
        self.files = {
            str(path.relative_to(root)): read_file(path)
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        self.keys = sorted(self.files, key=str.encode)


def read_file(path: Path) -> File:
    status = path.stat()
    if status.st_size <= PART_BYTES:
        body = path.read_bytes()
        return File(path, len(body), hashlib.md5(body).hexdigest(), status.st_mtime, body)
    digests = []
    with path.open("rb") as stream:
        while part := stream.read(PART_BYTES):
            digests.append(hashlib.md5(part).digest())
    etag = f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(digests)}"
    return File(path, status.st_size, etag, status.st_mtime, None)


class Connection(asyncio.Protocol):
    """One client connection. Requests have no body, so the next one starts at the blank line."""

    transport: asyncio.Transport

    def __init__(self, buckets: dict[str, Bucket]) -> None:
        self.buckets = buckets
        self.received = b""
        self.sending: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while self.sending is None and (end := self.received.find(b"\r\n\r\n")) >= 0:
            request, self.received = self.received[:end], self.received[end + 4 :]
            self.answer(request)

    def connection_lost(self, error: Exception | None) -> None:
        if self.sending is not None:
            self.sending.cancel()

    def answer(self, request: bytes) -> None:
        first, *lines = request.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if bucket not in self.buckets or method not in ("GET", "HEAD"):
            self.send_head("404 Not Found", 0)
        elif not key:
            body = listing(bucket, self.buckets[bucket], parse_qs(url.query))
            self.send_head("200 OK", len(body), "Content-Type: application/xml\r\n")
            self.transport.write(body)
        elif key not in self.buckets[bucket].files:
            self.send_head("404 Not Found", 0)
        else:
            ranged = [line[6:].strip() for line in lines if line[:6].lower() == "range:"]
            self.send_file(self.buckets[bucket].files[key], method, ranged[0] if ranged else "")

    def send_file(self, file: File, method: str, ranged: str) -> None:
        start, end = 0, file.size
        headers = (
            f'ETag: "{file.etag}"\r\nLast-Modified: {formatdate(file.modified, usegmt=True)}\r\n'
            "Accept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n"
        )
        if ranged:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            start = int(first)
            end = min(int(last) + 1 if last else file.size, file.size)
            headers += f"Content-Range: bytes {start}-{end - 1}/{file.size}\r\n"
        self.send_head("206 Partial Content" if ranged else "200 OK", end - start, headers)
        if method == "HEAD":
            return
        if file.body is not None:
            self.transport.write(file.body[start:end])
        else:
            self.sending = asyncio.get_running_loop().create_task(self.stream(file, start, end))

    async def stream(self, file: File, start: int, end: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with file.path.open("rb") as stream:
                await loop.sendfile(self.transport, stream, start, end - start)
        except (ConnectionError, RuntimeError):
            return
        self.sending = None
        self.data_received(b"")

    def send_head(self, status: str, length: int, headers: str = "") -> None:
        head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n"
        self.transport.write(head.encode("latin-1"))


def listing(name: str, bucket: Bucket, query: dict[str, list[str]]) -> bytes:
    prefix = query.get("prefix", [""])[0]
    after = query.get("continuation-token", query.get("start-after", [""]))[0]
    encode = quote if "encoding-type" in query else escape
    page, folders, more = select(bucket.keys, prefix, after, query.get("delimiter", [""])[0])
    rows = "".join(
        f"<Contents><Key>{encode(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{bucket.files[key].etag}&quot;</ETag><Size>{bucket.files[key].size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for key in page
    )
    rows += "".join(
        f"<CommonPrefixes><Prefix>{encode(folder)}</Prefix></CommonPrefixes>" for folder in folders
    )
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    encoding = "<EncodingType>url</EncodingType>" if "encoding-type" in query else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{name}</Name><Prefix>{encode(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
        f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{encoding}"
        f"{token}{rows}</ListBucketResult>"
    ).encode()


def select(
    keys: list[str], prefix: str, after: str, delimiter: str
) -> tuple[list[str], list[str], bool]:
    """Keys of one page, folders, and whether more keys follow. Folders are not paged."""
    start = bisect_right(keys, after.encode(), key=str.encode)
    matching = [key for key in keys[start:] if key.startswith(prefix)]
    if not delimiter:
        return matching[:PAGE], [], len(matching) > PAGE
    rests = [key[len(prefix) :] for key in matching]
    folders = {rest.partition(delimiter)[0] for rest in rests if delimiter in rest}
    direct = [prefix + rest for rest in rests if delimiter not in rest]
    shown = [f"{prefix}{folder}{delimiter}" for folder in sorted(folders)]
    return direct[:PAGE], shown, len(direct) > PAGE


async def serve(root: Path) -> None:
    buckets = {folder.name: Bucket(folder) for folder in root.iterdir() if folder.is_dir()}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(buckets), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    # Ends with whoever started it: the pipe on standard input closes.
    loop = asyncio.new_event_loop()
    loop.add_reader(0, lambda: os.read(0, 1) or os._exit(0))
    loop.run_until_complete(serve(Path(sys.argv[1])))
