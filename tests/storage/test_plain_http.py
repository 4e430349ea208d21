"""The way from socket to file inside the kernel: that it is taken, and left when it must be."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import S3Server, environment_for
from tests.fault_proxy import Fault, FaultProxy
from trackside.errors import ObjectChanged
from trackside.storage import plain_http
from trackside.storage.connect import open_s3
from trackside.storage.credentials import s3_access
from trackside.storage.store import Store
from trackside.storage.transfer import PART_BYTES, download

SIGNED = "GET .*X-Amz-Signature"  # in the address: no request of obstore has this form
CONTENT = os.urandom(3 * PART_BYTES)


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may stall for a while."""
    monkeypatch.setattr(plain_http, "_CONNECT_SECONDS", 100.0)
    monkeypatch.setattr(plain_http, "_SILENCE_SECONDS", 100)


@pytest.fixture
def store(faulty: FaultProxy, bucket: str) -> Store:
    access = s3_access(environment_for(faulty.url))
    assert access is not None
    store = open_s3(bucket, access)
    store.put('folder/it\'s "large" +%', CONTENT)
    return store


def fetch(store: Store, path: Path) -> bytes:
    download(store, [(entry, path) for entry in store.list()])
    return path.read_bytes()


def test_every_part_of_a_large_file_goes_this_way(
    store: Store, faulty: FaultProxy, tmp_path: Path
) -> None:
    faulty.requests.clear()
    assert fetch(store, tmp_path / "file") == CONTENT
    assert faulty.count(SIGNED) == faulty.count("GET .*large") == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault(SIGNED, status=503, times=3),
        Fault(SIGNED, status=403, times=3),
        Fault(SIGNED, cut_after=0, times=3),
        Fault(SIGNED, cut_after=1_000_000, times=3),
        Fault(SIGNED, loses_reply=True, times=3),
    ],
    ids=["busy", "refused", "cut at once", "cut midway", "no answer"],
)
def test_whatever_goes_wrong_the_rest_comes_the_usual_way(
    store: Store, faulty: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    faulty.requests.clear()
    faulty.inject(fault)
    assert fetch(store, tmp_path / "file") == CONTENT
    assert faulty.count("GET .*large") == 6


def test_another_version_is_not_taken(
    store: Store, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    (entry,) = store.list()
    s3_server.client().put_object(Bucket=bucket, Key=entry.key, Body=bytes(len(CONTENT)))
    with (tmp_path / "file").open("wb") as file:
        assert list(store.move(entry.key, 0, 1000, file.fileno(), etag=entry.etag)) == []
    assert (tmp_path / "file").stat().st_size == 0
    with pytest.raises(ObjectChanged):
        download(store, [(entry, tmp_path / "other")])


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server for one request, which closes the connection in good order after its response."""

    def serve() -> None:
        with listener.accept()[0] as line:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                request += line.recv(4096)
            line.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/bucket/key?signature=x"
        thread.join()


@pytest.mark.parametrize(
    ("head", "num_moved"),
    [
        (b'206 Partial Content\r\nContent-Length: 99999\r\nETag: "tag"', 50_000),
        (b'206 Partial Content\r\nContent-Length: 99999\r\nETag: "another"', 0),
        (b"206 Partial Content\r\nContent-Length: 99999", 0),
        (b'200 OK\r\nContent-Length: 99999\r\nETag: "tag"', 0),
        (b'206 Partial Content\r\nContent-Length: 50000\r\nETag: "tag"', 0),
        (b'206 Partial Content\r\nETag: "tag"', 0),
    ],
    ids=["it breaks off", "another version", "no version", "the whole", "less", "no length"],
)
def test_a_response_that_does_not_match_leaves_no_byte(
    tmp_path: Path, head: bytes, num_moved: int
) -> None:
    body = CONTENT[:50_000]
    with (
        (tmp_path / "file").open("w+b") as file,
        answering(b"HTTP/1.1 " + head + b"\r\n\r\n" + body) as url,
    ):
        assert sum(plain_http.moved(url, 7, 7 + 99_999, file.fileno(), "tag")) == num_moved
        assert file.read() == (bytes(7) + body if num_moved else b"")


def test_only_a_server_without_tls_and_without_a_proxy_is_spoken_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert plain_http.is_usable("http://store:9000")
    assert not plain_http.is_usable("https://store:9000")
    assert not plain_http.is_usable(None)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert not plain_http.is_usable("http://store:9000")
    monkeypatch.setenv("no_proxy", "store")
    assert plain_http.is_usable("http://store:9000")
