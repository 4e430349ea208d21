"""Multipart uploads, by boto3: parts in any order, twice, copied; completed once or never."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.test_object_calls import content, refused

MIB = 1 << 20
PARTS = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(100)]


@pytest.fixture
def upload(s3):
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="big", Metadata={"by": "parts"})
    return {"Bucket": BUCKET, "Key": "big", "UploadId": made["UploadId"]}


def put(s3, upload, number: int, data: bytes) -> dict[str, object]:
    response = s3.upload_part(**upload, PartNumber=number, Body=data)
    return {"PartNumber": number, "ETag": response["ETag"]}


def complete(s3, upload, parts) -> Any:
    ordered = sorted(parts, key=lambda part: part["PartNumber"])
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": ordered})


def inode(endpoint, key: str) -> int:
    return (endpoint.buckets / BUCKET / key).stat().st_ino


def shared_inode(endpoint) -> int:
    return next((endpoint.buckets / BUCKET / ".trackside" / "uploads").glob("*/data")).stat().st_ino


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_parts_may_come_in_any_order_and_are_not_copied(s3, endpoint, upload, order):
    parts = [put(s3, upload, number, PARTS[number - 1]) for number in order]
    shared = shared_inode(endpoint)
    done = complete(s3, upload, parts)
    digests = b"".join(hashlib.md5(part).digest() for part in PARTS)
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    assert content(s3, "big") == b"".join(PARTS) == endpoint.store().get("big")
    assert s3.head_object(Bucket=BUCKET, Key="big")["Metadata"] == {"by": "parts"}
    assert inode(endpoint, "big") == shared
    assert list((endpoint.buckets / BUCKET / ".trackside" / "uploads").iterdir()) == []


def test_parts_of_different_sizes_and_gaps_in_the_numbers_are_joined(s3, upload):
    sizes = {2: 6 * MIB, 5: 5 * MIB, 9: 7 * MIB, 10_000: 1}
    data = {number: os.urandom(size) for number, size in sizes.items()}
    complete(s3, upload, [put(s3, upload, number, each) for number, each in data.items()])
    assert content(s3, "big") == b"".join(data.values())


def test_the_last_version_of_a_part_counts(s3, upload):
    first = put(s3, upload, 1, PARTS[0])
    again = put(s3, upload, 1, PARTS[1])
    last = put(s3, upload, 2, PARTS[2])
    with pytest.raises(ClientError, match="InvalidPart"):
        complete(s3, upload, [first, last])
    complete(s3, upload, [again, last])
    assert content(s3, "big") == PARTS[1] + PARTS[2]


def test_completing_again_is_the_same_as_once(s3, upload):
    parts = [put(s3, upload, 1, b"x")]
    first, second = complete(s3, upload, parts), complete(s3, upload, parts)
    assert first["ETag"] == second["ETag"]
    s3.put_object(Bucket=BUCKET, Key="big", Body=b"another")
    with pytest.raises(ClientError, match="NoSuchUpload"):
        complete(s3, upload, parts)


def test_an_aborted_upload_leaves_nothing(s3, endpoint, upload):
    put(s3, upload, 1, PARTS[0])
    s3.abort_multipart_upload(**upload)
    assert refused(s3.list_parts, **upload) == ("NoSuchUpload", 404)
    assert list((endpoint.buckets / BUCKET / ".trackside" / "uploads").iterdir()) == []
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_wrong_lists_of_parts_are_refused_and_the_upload_stays(s3, upload):
    small, other = put(s3, upload, 1, b"small"), put(s3, upload, 2, b"last")
    ask = s3.complete_multipart_upload
    swapped = {"Parts": [other, small]}
    assert refused(ask, **upload, MultipartUpload=swapped) == ("InvalidPartOrder", 400)
    both = {"Parts": [small, other]}
    assert refused(ask, **upload, MultipartUpload=both) == ("EntityTooSmall", 400)
    missing = {"Parts": [{"PartNumber": 7, "ETag": "x"}]}
    assert refused(ask, **upload, MultipartUpload=missing) == ("InvalidPart", 400)
    complete(s3, upload, [other])
    assert content(s3, "big") == b"last"


def test_parts_and_uploads_are_listed_in_pages(s3, upload):
    for number in (3, 1, 2):
        put(s3, upload, number, b"%d" % number)
    page = s3.list_parts(**upload, MaxParts=2)
    assert [part["PartNumber"] for part in page["Parts"]] == [1, 2]
    rest = s3.list_parts(**upload, PartNumberMarker=page["NextPartNumberMarker"])
    assert [part["PartNumber"] for part in rest["Parts"]] == [3]
    for key in ("a/1", "a/2", "c"):
        s3.create_multipart_upload(Bucket=BUCKET, Key=key)
    found = s3.list_multipart_uploads(Bucket=BUCKET, Delimiter="/")
    assert [each["Key"] for each in found["Uploads"]] == ["big", "c"]
    assert [each["Prefix"] for each in found["CommonPrefixes"]] == ["a/"]
    first = s3.list_multipart_uploads(Bucket=BUCKET, MaxUploads=3)
    second = s3.list_multipart_uploads(
        Bucket=BUCKET,
        KeyMarker=first["NextKeyMarker"],
        UploadIdMarker=first["NextUploadIdMarker"],
    )
    keys = [each["Key"] for each in first["Uploads"] + second["Uploads"]]
    assert keys == ["a/1", "a/2", "big", "c"]


def test_parts_are_copied_from_other_objects(s3, upload):
    s3.put_object(Bucket=BUCKET, Key="source", Body=PARTS[0] + PARTS[1])
    source = {"Bucket": BUCKET, "Key": "source"}
    span = f"bytes=0-{5 * MIB - 1}"
    first = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange=span)
    last = s3.upload_part_copy(
        **upload, PartNumber=2, CopySource=source, CopySourceRange=f"bytes={5 * MIB}-{5 * MIB + 1}"
    )
    etags = [(1, first["CopyPartResult"]["ETag"]), (2, last["CopyPartResult"]["ETag"])]
    complete(s3, upload, [{"PartNumber": number, "ETag": etag} for number, etag in etags])
    assert content(s3, "big") == PARTS[0] + PARTS[1][:2]


def test_a_part_that_was_sent_twice_may_be_named_twice(s3, upload):
    first, second = put(s3, upload, 1, b"first"), put(s3, upload, 1, b"second")
    outdated = {**upload, "MultipartUpload": {"Parts": [first]}}
    assert refused(s3.complete_multipart_upload, **outdated) == ("InvalidPart", 400)
    complete(s3, upload, [first, second])
    assert content(s3, "big") == b"second"


def test_one_part_can_be_read_alone(s3, upload):
    complete(s3, upload, [put(s3, upload, n, part) for n, part in enumerate(PARTS, 1)])
    got = s3.get_object(Bucket=BUCKET, Key="big", PartNumber=2)
    assert got["Body"].read() == PARTS[1]
    assert got["PartsCount"] == 3
    params = {"Bucket": BUCKET, "Key": "big", "ObjectAttributes": ["ObjectParts", "ObjectSize"]}
    found = s3.get_object_attributes(**params)
    assert found["ObjectSize"] == sum(map(len, PARTS))
    assert found["ObjectParts"]["TotalPartsCount"] == 3


def test_a_condition_that_fails_keeps_the_upload_for_another_try(s3, upload):
    s3.put_object(Bucket=BUCKET, Key="big", Body=b"old")
    parts = {"Parts": [put(s3, upload, n, part) for n, part in enumerate(PARTS, 1)]}
    ask = s3.complete_multipart_upload
    failed = refused(ask, **upload, MultipartUpload=parts, IfNoneMatch="*")
    assert failed == ("PreconditionFailed", 412)
    assert content(s3, "big") == b"old"
    s3.delete_object(Bucket=BUCKET, Key="big")
    ask(**upload, MultipartUpload=parts, IfNoneMatch="*")
    assert content(s3, "big") == b"".join(PARTS)


def test_an_upload_may_replace_one_version_only(s3, upload):
    old = s3.put_object(Bucket=BUCKET, Key="big", Body=b"old")["ETag"]
    parts = {"Parts": [put(s3, upload, n, part) for n, part in enumerate(PARTS, 1)]}
    ask = s3.complete_multipart_upload
    s3.put_object(Bucket=BUCKET, Key="big", Body=b"newer")
    failed = refused(ask, **upload, MultipartUpload=parts, IfMatch=old)
    assert failed == ("PreconditionFailed", 412)
    assert content(s3, "big") == b"newer"
    etag = s3.head_object(Bucket=BUCKET, Key="big")["ETag"]
    ask(**upload, MultipartUpload=parts, IfMatch=etag)
    assert content(s3, "big") == b"".join(PARTS)
    other = s3.create_multipart_upload(Bucket=BUCKET, Key="gone")["UploadId"]
    gone = {"Bucket": BUCKET, "Key": "gone", "UploadId": other}
    parts = {"Parts": [put(s3, gone, 1, b"x")]}
    assert refused(ask, **gone, MultipartUpload=parts, IfMatch=old) == ("NoSuchKey", 404)


def test_the_transfer_manager_uploads_and_downloads_in_parts(s3, tmp_path: Path):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(21 * MIB + 5))
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    s3.upload_file(str(source), BUCKET, "big", Config=config)
    s3.download_file(BUCKET, "big", str(back), Config=config)
    assert back.read_bytes() == source.read_bytes()
