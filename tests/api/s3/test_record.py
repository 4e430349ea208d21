"""What is kept beside an object's bytes, damaged or planted: the object is read all the same."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.conftest import BUCKET, S3Endpoint
from tests.api.s3.test_object_calls import content
from trackside.storage.folder import version_of

pytestmark = pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)

ATTRIBUTE = "user.trackside.object"


def plant(path: Path, data: bytes) -> None:
    """As a user does who can write to the bucket's folder."""
    try:
        os.setxattr(path, ATTRIBUTE, data)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        records = path.parent / ".trackside" / "records"
        records.mkdir(parents=True, exist_ok=True)
        (records / f"{version_of(path.stat())}.json").write_bytes(data)


def stamped(path: Path, **record: Any) -> bytes:
    """A record of the file as it is."""
    status = path.stat()
    return json.dumps(
        {"size": status.st_size, "modified": status.st_mtime_ns, "etag": "e", **record}
    ).encode()


DAMAGED: dict[str, dict[str, Any]] = {
    "an unknown member": {"colour": "red"},
    "an ETag of another type": {"etag": 5},
    "an ETag that splits the answer": {"etag": "x\r\nx-evil: 1"},
    "a type that no header can hold": {"content_type": "\u20ac"},
    "headers that are none": {"headers": ["a"]},
    "a header that is not kept": {"headers": {"transfer-encoding": "chunked"}},
    "a header of another type": {"headers": {"expires": 5}},
    "metadata that split the answer": {"metadata": {"a": "b\nc"}},
    "a name of metadata that is none": {"metadata": {"a: b\r\nc": "d"}},
    "tags of another type": {"tags": {"a": []}},
    "parts that are none": {"parts": [5]},
    "parts of another size": {"parts": [[1, "x"], [10**6, "y"]]},
    "an unknown algorithm": {"algorithm": "rot13", "checksum": "x"},
    "a checksum that splits the answer": {"algorithm": "crc32", "checksum": "a\r\nb"},
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_record_is_none(endpoint: S3Endpoint, s3: Any, what: str):
    path = endpoint.buckets / BUCKET / "k.txt"
    s3.put_object(Bucket=BUCKET, Key="k.txt", Body=b"0123456789", ContentType="a/b")
    plant(path, stamped(path, **DAMAGED[what]))
    check_read_by_its_state(s3)


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"null", b"{}", b"\xff", b"[" * 3000, b'{"size": 1}', b"5"]
)
def test_an_invalid_record_is_ignored(endpoint: S3Endpoint, s3: Any, data: bytes):
    s3.put_object(Bucket=BUCKET, Key="k.txt", Body=b"0123456789", ContentType="a/b")
    plant(endpoint.buckets / BUCKET / "k.txt", data)
    check_read_by_its_state(s3)


def check_read_by_its_state(s3: Any) -> None:
    found = s3.head_object(Bucket=BUCKET, Key="k.txt", ChecksumMode="ENABLED")
    assert found["ContentType"] == "text/plain"
    assert found["Metadata"] == {}
    assert content(s3, "k.txt") == b"0123456789"
    [listed] = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert listed["ETag"] == found["ETag"]
    assert s3.get_object_tagging(Bucket=BUCKET, Key="k.txt")["TagSet"] == []
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/k.txt")
    assert content(s3, "copy") == b"0123456789"


def test_a_record_of_this_file_is_used(endpoint: S3Endpoint, s3: Any):
    path = endpoint.buckets / BUCKET / "k"
    path.write_bytes(b"by a job")
    plant(path, stamped(path, etag="mine", headers={"cache-control": "none"}, metadata={"a": "b"}))
    found = s3.head_object(Bucket=BUCKET, Key="k")
    assert (found["ETag"], found["CacheControl"], found["Metadata"]) == (
        '"mine"',
        "none",
        {"a": "b"},
    )


@pytest.mark.parametrize("seconds", [-(2**33), 2**34, 2**50])
def test_a_file_of_any_time_is_read_and_listed(endpoint: S3Endpoint, s3: Any, seconds: int):
    path = endpoint.buckets / BUCKET / "k"
    path.write_bytes(b"1")
    try:
        os.utime(path, (seconds, seconds))
    except OverflowError:
        pytest.skip("this disk has no such times")
    assert content(s3, "k") == b"1"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["k"]


def test_a_damaged_record_of_a_bucket_hides_none(endpoint: S3Endpoint, s3: Any):
    record = endpoint.buckets / BUCKET / ".trackside" / "bucket.json"
    for data in (b"{", b"[]", b'{"created": 1e300, "region": "a\\r\\nb"}', b'{"created": "x"}'):
        record.write_bytes(data)
        assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == [BUCKET]
        assert s3.head_bucket(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_a_damaged_record_of_an_upload_hides_no_other(endpoint: S3Endpoint, s3: Any):
    ids = [s3.create_multipart_upload(Bucket=BUCKET, Key=k)["UploadId"] for k in ("a", "b")]
    record = endpoint.buckets / BUCKET / ".trackside" / "uploads" / ids[0] / "upload.json"
    for data in (b"{", b"[]", b"{}", record.read_bytes().replace(b'"created"', b'"made"')):
        record.write_bytes(data)
        listed = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
        assert [each["UploadId"] for each in listed] == [ids[1]]
