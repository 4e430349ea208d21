"""Links in the folders of buckets, planted by a user who can write there: S3 follows none."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET, S3Endpoint
from tests.api.s3.test_object_calls import content, refused
from trackside.api.s3.beneath import open_file, open_folder

pytestmark = pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)

SECRET = b"not for everybody"
ABSENT = ("NoSuchKey", 404)
DENIED = ("AccessDenied", 403)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that no request may touch."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "secret").write_bytes(SECRET)
    (folder / "deep" / "secret").write_bytes(SECRET)
    (folder / "empty").mkdir()
    yield folder
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert found == {"secret", "deep", "deep/secret", "empty"}
    assert (folder / "secret").read_bytes() == (folder / "deep/secret").read_bytes() == SECRET


@pytest.fixture
def root(endpoint: S3Endpoint, s3: Any, outside: Path) -> Path:
    """A bucket's folder with links to a file, to folders on the way, and upwards."""
    root = endpoint.buckets / BUCKET
    s3.put_object(Bucket=BUCKET, Key="folder/own", Body=b"own")
    os.symlink(outside / "secret", root / "file")
    os.symlink(outside, root / "linked")
    os.symlink(outside / "deep", root / "folder" / "linked")
    os.symlink("../..", root / "up")
    os.symlink(outside / "nowhere", root / "dangling")
    return root


LED_OUT = ["file", "linked/secret", "linked/deep/secret", "folder/linked/secret", "dangling",
           "up/outside/secret"]  # fmt: skip


@pytest.mark.parametrize("key", LED_OUT)
def test_the_target_of_a_link_is_no_object(s3, root, key):
    given = {"Bucket": BUCKET, "Key": key}
    assert refused(s3.get_object, **given) == ABSENT
    assert refused(s3.head_object, **given) == ("404", 404)
    assert refused(s3.get_object_tagging, **given) == ABSENT
    assert refused(s3.put_object_tagging, **given, Tagging={"TagSet": []}) == ABSENT
    assert refused(s3.copy_object, Bucket=BUCKET, Key="copy", CopySource=given) == ABSENT
    s3.delete_object(**given)
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key}]})


@pytest.mark.parametrize(
    "given", [{}, {"Delimiter": "/"}, {"Prefix": "linked/"}, {"Prefix": "folder/"}, {"Prefix": "f"},
              {"Prefix": "up/"}, {"Prefix": "linked/", "Delimiter": "/"}],
)  # fmt: skip
def test_no_listing_follows_links(s3, root, given):
    found = s3.list_objects_v2(Bucket=BUCKET, **given)
    keys = [each["Key"] for each in found.get("Contents", [])]
    prefixes = [each["Prefix"] for each in found.get("CommonPrefixes", [])]
    assert set(keys) <= {"folder/own"}
    assert set(prefixes) <= {"folder/"}


@pytest.mark.parametrize("key", LED_OUT)
def test_an_object_that_is_put_where_a_link_is_stays_in_its_bucket(s3, root, key):
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"mine")
    assert content(s3, key) == b"mine"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    given = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    etag = s3.upload_part(**given, PartNumber=1, Body=b"in parts")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    s3.complete_multipart_upload(**given, MultipartUpload=parts)
    assert content(s3, key) == b"in parts"
    assert key in [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    s3.delete_object(Bucket=BUCKET, Key=key)
    assert refused(s3.get_object, Bucket=BUCKET, Key=key) == ABSENT


def test_a_bucket_that_is_a_link_is_none(endpoint, s3, outside):
    os.symlink(outside, endpoint.buckets / "linked-bucket")
    given = {"Bucket": "linked-bucket", "Key": "secret"}
    absent = ("NoSuchBucket", 404)
    assert refused(s3.get_object, **given) == absent
    assert refused(s3.put_object, **given, Body=b"1") == absent
    assert refused(s3.list_objects_v2, Bucket="linked-bucket") == absent
    assert refused(s3.delete_bucket, Bucket="linked-bucket") == absent
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == [BUCKET]


@pytest.mark.parametrize("name", ["", "locks", "keys", "uploads", "records"])
def test_the_servers_own_folder_in_a_bucket_is_never_a_link(endpoint, s3, outside, name):
    hidden = endpoint.buckets / BUCKET / ".trackside"
    planted = hidden / name if name else hidden
    if planted.exists():
        planted.rename(planted.with_name("away"))
    os.symlink(outside, planted)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (s3.put_object, {"Key": "k", "Body": b"1"}),
        (s3.put_object, {"Key": "odd//key", "Body": b"1"}),
        (s3.put_object, {"Key": "k", "Body": b"1", "Metadata": {"m": "x" * 2000}}),
        (s3.delete_object, {"Key": "k"}),
        (s3.create_multipart_upload, {"Key": "k"}),
        (s3.list_multipart_uploads, {}),
        (s3.list_objects_v2, {}),
        (s3.get_bucket_location, {}),
    ]
    for call, given in calls:
        try:
            call(Bucket=BUCKET, **given)
        except ClientError as error:
            found = error.response["Error"]["Code"], error.response["ResponseMetadata"]
            assert (found[0], found[1]["HTTPStatusCode"]) == DENIED


def test_a_lock_that_is_a_link_is_not_opened(endpoint, s3, outside):
    locks = endpoint.buckets / BUCKET / ".trackside" / "locks"
    locks.mkdir(parents=True)
    for number in range(256):
        os.symlink(outside / "new", locks / f"{number:02x}")
    assert refused(s3.put_object, Bucket=BUCKET, Key="k", Body=b"1") == DENIED


@pytest.mark.parametrize("name", ["data", "sealed"])
def test_parts_of_an_upload_are_not_written_through_a_link(endpoint, s3, outside, name):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
    given = {"Bucket": BUCKET, "Key": "k", "UploadId": upload}
    first = s3.upload_part(**given, PartNumber=1, Body=b"1")["ETag"]
    folder = endpoint.buckets / BUCKET / ".trackside" / "uploads" / upload
    (folder / "data").rename(folder / "away")
    os.symlink(outside / "secret", folder / name)
    s3.upload_part(**given, PartNumber=2, Body=b"2")
    parts = {"Parts": [{"PartNumber": 1, "ETag": first}]}
    assert refused(s3.complete_multipart_upload, **given, MultipartUpload=parts)[1] == 404
    assert refused(s3.get_object, Bucket=BUCKET, Key="k") == ABSENT


@pytest.mark.parametrize("file", ["../../../../outside/secret", "/etc/hostname", "data/../x", ""])
def test_the_record_of_a_part_names_no_file_elsewhere(endpoint, s3, outside, file):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
    given = {"Bucket": BUCKET, "Key": "k", "UploadId": upload}
    etag = s3.upload_part(**given, PartNumber=1, Body=SECRET)["ETag"]
    record = endpoint.buckets / BUCKET / ".trackside" / "uploads" / upload / "00001.part.json"
    record.write_text(record.read_text().replace('"file": "data"', f'"file": "{file}"'))
    assert s3.list_parts(**given).get("Parts", []) == []
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    assert refused(s3.complete_multipart_upload, **given, MultipartUpload=parts)[1] == 400


def test_a_folder_replaced_by_a_link_while_in_use_is_not_followed(endpoint, s3, outside):
    """A server that checked a path and then used it would be redirected sooner or later."""
    root = endpoint.buckets / BUCKET
    s3.put_object(Bucket=BUCKET, Key="swapped/secret", Body=b"own")
    is_over = threading.Event()

    def swap() -> None:
        swapped, away = root / "swapped", root / "away"
        while not is_over.is_set():
            for step in (
                lambda: swapped.rename(away),
                lambda: os.symlink(outside, swapped),
                lambda: swapped.unlink(),
                lambda: shutil.rmtree(swapped),  # the server has made one meanwhile
                lambda: away.rename(swapped),
            ):
                with suppress(OSError):
                    step()

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(30):
            read = _tried(s3.get_object, Bucket=BUCKET, Key="swapped/secret")
            assert read is None or read["Body"].read() == b"own"
            listed = _tried(s3.list_objects_v2, Bucket=BUCKET, Prefix="swapped/") or {}
            names = {each["Key"] for each in listed.get("Contents", [])}
            assert names <= {"swapped/secret", "swapped/new"}
            _tried(s3.put_object, Bucket=BUCKET, Key="swapped/new", Body=b"%d" % number)
            _tried(s3.delete_object, Bucket=BUCKET, Key="swapped/new")
    finally:
        is_over.set()
        swapping.join()


def _tried(call: Any, **given: Any) -> Any:
    """None when it is refused, which may be for any reason of the client's."""
    try:
        return call(**given)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status < 500
    return None


def test_folders_are_entered_name_by_name(tmp_path, endpoint):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1")
    os.symlink("b", tmp_path / "a" / "link")
    os.close(open_file(str(tmp_path), ("a", "b", "file"), os.O_RDONLY))
    with pytest.raises(NotADirectoryError):
        open_file(str(tmp_path), ("a", "link", "file"), os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        open_folder(str(tmp_path), ("a", "link", "new"), make=True)
    with pytest.raises(FileNotFoundError):
        open_file(str(tmp_path), ("a", "link"), os.O_RDONLY)
    with open_folder(str(tmp_path), ("a", "new", "newer"), make=True) as folder:
        assert os.path.samefile(folder.path, tmp_path / "a" / "new" / "newer")
    assert os.listdir(tmp_path / "a" / "b") == ["file"]
