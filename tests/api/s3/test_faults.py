"""What goes wrong on the way: nothing half-written is seen, nothing whole is lost."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET, REGION
from tests.api.s3.test_object_calls import content, refused
from tests.small_disk import fill, small_disk
from tests.wait import until

MIB = 1 << 20


def half_put(s3, key: str, sent: int, announced: int, **part: object) -> socket.socket:
    """A connection with a PUT, of an object or a part, that was started and not finished."""
    operation = "upload_part" if part else "put_object"
    given = {"Bucket": BUCKET, "Key": key, **part}
    address = urlsplit(s3.generate_presigned_url(operation, given))
    connection = socket.create_connection((address.hostname, address.port), 60)
    connection.sendall(
        f"PUT {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Length: {announced}\r\n\r\n".encode()
    )
    connection.sendall(os.urandom(sent))
    return connection


def files(endpoint) -> list[str]:
    """And folders. `os.walk` ignores those that are removed meanwhile."""
    root = endpoint.buckets / BUCKET
    found = [Path(top, name) for top, *names in os.walk(root) for name in (*names[0], *names[1])]
    return sorted(str(path.relative_to(root)) for path in found if ".trackside" not in path.parts)


@pytest.mark.parametrize("sent", [1000, 5 * MIB])
def test_a_client_that_leaves_in_the_middle_leaves_nothing(endpoint, s3, sent):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"old")
    half_put(s3, "k", sent, 2 * sent).close()
    half_put(s3, "new/folder/k", sent, 2 * sent).close()
    until(lambda: files(endpoint) == ["k"])
    assert content(s3, "k") == b"old"


def test_a_reader_during_overwrites_gets_one_version_whole(endpoint, s3):
    versions = [bytes([number]) * 3 * MIB for number in range(6)]
    digests = {hashlib.md5(version).hexdigest() for version in versions}
    s3.put_object(Bucket=BUCKET, Key="k", Body=versions[0])
    done = threading.Event()

    def read(client) -> int:
        count = 0
        while not done.is_set() or count == 0:
            got = client.get_object(Bucket=BUCKET, Key="k")
            found = hashlib.md5(got["Body"].read()).hexdigest()
            assert got["ETag"] == f'"{found}"'
            assert found in digests
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, endpoint.client()) for _ in range(3)]
        try:
            for version in versions * 3:
                s3.put_object(Bucket=BUCKET, Key="k", Body=version)
        finally:
            done.set()
        assert all(reader.result() > 0 for reader in readers)


def test_a_part_that_is_still_coming_cannot_touch_the_finished_object(endpoint, s3):
    size = 6 * MIB
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="k")
    upload = {"Bucket": BUCKET, "Key": "k", "UploadId": made["UploadId"]}
    part = {"UploadId": made["UploadId"], "PartNumber": 1}
    with half_put(s3, "k", 2 * MIB, size, **part) as slow:
        claims = endpoint.buckets / BUCKET / ".trackside" / "uploads"
        until(lambda: list(claims.glob("*/00001.claimed")))
        data = os.urandom(size)
        first = s3.upload_part(**upload, PartNumber=1, Body=data)
        last = s3.upload_part(**upload, PartNumber=2, Body=b"end")
        parts = [{"PartNumber": 1, "ETag": first["ETag"]}, {"PartNumber": 2, "ETag": last["ETag"]}]
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        slow.sendall(os.urandom(size - 2 * MIB))
        assert slow.recv(1000).startswith(b"HTTP/1.1 404")
    assert content(s3, "k") == data + b"end"


SERVER = """
import sys
from pathlib import Path
from typing import Any
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.api.server import listen, make_server
keys = AccessKeys(Path(sys.argv[1]) / "server")
key, secret = keys.create("tests", Rights.ADMIN)
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], key.id, secret, flush=True)
make_server(App({"s3": S3(Path(sys.argv[1]) / "buckets")}, keys)).run(sockets=[listener])
"""


def test_a_server_killed_during_a_put_leaves_the_old_object(tmp_path: Path):
    def start() -> tuple["subprocess.Popen[str]", Any]:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        port, key, secret = process.stdout.readline().split()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name=REGION,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )
        return process, client

    def kill(process: "subprocess.Popen[str]") -> None:
        process.send_signal(signal.SIGKILL)
        process.communicate()

    process, client = start()
    endpoint = tmp_path / "buckets" / BUCKET
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="a/k", Body=b"old", Metadata={"x": "1"})
    with half_put(client, "a/k", 4 * MIB, 8 * MIB):
        until(lambda: list((endpoint / "a").glob(".trackside-*.part")))
        kill(process)
    process, client = start()
    got = client.get_object(Bucket=BUCKET, Key="a/k")
    assert (got["Body"].read(), got["Metadata"]) == (b"old", {"x": "1"})
    assert client.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 1
    client.put_object(Bucket=BUCKET, Key="a/other", Body=b"1")
    assert sorted(path.name for path in (endpoint / "a").iterdir()) == ["k", "other"]
    kill(process)


@pytest.fixture
def full(tmp_path: Path):
    with small_disk(tmp_path / "buckets", "4m") as disk:
        yield disk


@pytest.mark.parametrize("size", [100_000, 1 * MIB])
def test_a_full_disk_is_named_and_loses_nothing(full, endpoint, s3, size):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"old")
    fill(full)
    given = {"Bucket": BUCKET, "Key": "k", "Body": os.urandom(size)}
    assert refused(s3.put_object, **given) == ("InsufficientStorage", 507)
    assert content(s3, "k") == b"old"
    until(lambda: files(endpoint) == ["k"])
    (full / "filler").unlink()
    s3.put_object(**given)
    assert content(s3, "k") == given["Body"]


def test_a_read_only_disk_is_named_and_loses_nothing(full, s3):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(full)], check=True)
    given = {"Bucket": BUCKET, "Key": "k", "Body": b"new"}
    with pytest.raises(ClientError, match="disk is read-only") as error:
        s3.put_object(**given)
    assert error.value.response["Error"]["Code"] == "InsufficientStorage"
    assert content(s3, "k") == b"old"
    subprocess.run(["mount", "-o", "remount,rw", str(full)], check=True)
    s3.put_object(**given)
    assert content(s3, "k") == b"new"


def test_a_full_disk_ends_a_part_and_keeps_the_others(full, endpoint, s3):
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="k")
    upload = {"Bucket": BUCKET, "Key": "k", "UploadId": made["UploadId"]}
    first = s3.upload_part(**upload, PartNumber=1, Body=b"1" * 1000)
    fill(full)
    given = {**upload, "PartNumber": 2, "Body": bytes(MIB)}
    assert refused(s3.upload_part, **given) == ("InsufficientStorage", 507)
    (full / "filler").unlink()
    assert [part["PartNumber"] for part in s3.list_parts(**upload)["Parts"]] == [1]
    parts = {"Parts": [{"PartNumber": 1, "ETag": first["ETag"]}]}
    s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert content(s3, "k") == b"1" * 1000


def test_a_slow_disk_delays_only_requests_that_wait_for_it(endpoint, s3, monkeypatch):
    syncing, most, lock = 0, 0, threading.Lock()
    sync = os.fsync

    def slow_sync(descriptor: int) -> None:
        nonlocal syncing, most
        with lock:
            syncing += 1
            most = max(most, syncing)
        time.sleep(0.02)
        with lock:
            syncing -= 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_sync)
    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            pool.submit(s3.put_object, Bucket=BUCKET, Key=f"k{number}", Body=b"1")
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 40
    assert most > 1


def test_without_file_attributes_records_are_separate_files(s3, endpoint, monkeypatch):
    def refuse(*_, **__):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    monkeypatch.setattr(os, "getxattr", refuse)
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", Metadata={"a": "b"})
    s3.put_object(Bucket=BUCKET, Key="x" * 1000, Body=b"odd")
    head = s3.head_object(Bucket=BUCKET, Key="k")
    assert (head["ETag"], head["Metadata"]) == (put["ETag"], {"a": "b"})
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert keys == ["k", "x" * 1000]
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"2")
    s3.delete_object(Bucket=BUCKET, Key="x" * 1000)
    records = endpoint.buckets / BUCKET / ".trackside" / "records"
    assert len(list(records.iterdir())) == 1
    s3.delete_object(Bucket=BUCKET, Key="k")
    assert list(records.iterdir()) == []
