"""Listings: the same as sorting all keys would give, in pages, and without walking too far."""

import os
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import S3Store

from tests.api.s3.conftest import BUCKET, REGION, S3Endpoint, serving
from tests.api.s3.test_clients import run
from tests.aws_clients import program
from trackside.api.budget import Budget
from trackside.api.s3.bucket import Bucket
from trackside.api.s3.listing import ListOptions, list_page
from trackside.api.s3.record import ObjectRecord
from trackside.api.s3.service import S3

KEYS = ["a", "a-b", "a/1", "a/b/2", "a/b/3", "b/x", "b//y", "c/", "d", "é/ü", "z z"]
IN_ORDER = sorted(KEYS, key=str.encode)


@pytest.fixture
def filled(s3):
    for key in KEYS:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    return s3


@pytest.mark.parametrize("form", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_pages_list_every_key_once_and_in_order(filled, form, size):
    pages = filled.get_paginator(form).paginate(Bucket=BUCKET, PaginationConfig={"PageSize": size})
    assert [item["Key"] for page in pages for item in page.get("Contents", [])] == IN_ORDER


@pytest.mark.parametrize("form", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_delimiter_folds_keys_into_prefixes_across_pages(filled, form, size):
    def listed(prefix: str) -> tuple[list[str], list[str]]:
        pages = filled.get_paginator(form).paginate(
            Bucket=BUCKET, Delimiter="/", Prefix=prefix, PaginationConfig={"PageSize": size}
        )
        keys: list[str] = []
        folders: list[str] = []
        for page in pages:
            keys += [item["Key"] for item in page.get("Contents", [])]
            folders += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        return keys, folders

    assert listed("") == (["a", "a-b", "d", "z z"], ["a/", "b/", "c/", "é/"])
    assert listed("a/") == (["a/1"], ["a/b/"])
    assert listed("b/") == (["b/x"], ["b//"])
    assert listed("a/b") == ([], ["a/b/"])
    assert listed("nothing") == ([], [])


def test_tensorboard_sees_a_bucket_as_a_folder(filled, s3):
    """It lists with a slash as the prefix, in version 1. Version 2 responds as S3 does."""
    slash = {"Bucket": BUCKET, "Prefix": "/", "Delimiter": "/"}
    assert s3.list_objects(**slash)["CommonPrefixes"] == [{"Prefix": "/"}]
    assert "CommonPrefixes" not in s3.list_objects_v2(**slash)
    assert "CommonPrefixes" not in s3.list_objects(**slash, Marker="/")
    assert "CommonPrefixes" not in s3.list_objects(Bucket=BUCKET, Prefix="/")
    s3.put_object(Bucket=BUCKET, Key="/own/x", Body=b"")
    assert s3.list_objects(**slash)["CommonPrefixes"] == [{"Prefix": "/own/"}]
    s3.create_bucket(Bucket="empty-one")
    assert "CommonPrefixes" not in s3.list_objects(**{**slash, "Bucket": "empty-one"})


def test_a_listing_can_start_anywhere(filled):
    def after(start: str, **more: str) -> list[str]:
        found = filled.list_objects_v2(Bucket=BUCKET, StartAfter=start, **more)
        return [item["Key"] for item in found.get("Contents", [])]

    assert after("a/b") == IN_ORDER[IN_ORDER.index("a/b/2") :]
    assert after("a/b/2", Prefix="a/") == ["a/b/3"]
    assert after("é/ü") == []
    within = filled.list_objects_v2(Bucket=BUCKET, StartAfter="a/b/2", Delimiter="/")
    assert within["CommonPrefixes"][0]["Prefix"] == "a/"


def test_owner_and_encoding_are_returned_on_request(filled):
    found = filled.list_objects_v2(Bucket=BUCKET, FetchOwner=True, EncodingType="url", MaxKeys=50)
    assert found["Contents"][0]["Owner"]["ID"]
    assert found["Contents"][-1]["Key"] == "%C3%A9/%C3%BC"
    assert found["KeyCount"] == len(KEYS)
    assert "Owner" not in filled.list_objects_v2(Bucket=BUCKET)["Contents"][0]
    assert filled.list_objects_v2(Bucket=BUCKET, MaxKeys=0)["KeyCount"] == 0


def test_unfinished_files_and_empty_folders_are_not_listed(filled, endpoint):
    root = endpoint.buckets / BUCKET
    (root / ".trackside-0-1-2.part").write_bytes(b"half")
    (root / "empty" / "folder").mkdir(parents=True)
    os.symlink(root, root / "circle")
    found = filled.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert [item["Prefix"] for item in found["CommonPrefixes"]] == ["a/", "b/", "c/", "é/"]


def test_keys_below_a_common_prefix_are_not_read(endpoint, s3):
    root = endpoint.buckets / BUCKET
    for number in range(30):
        folder = root / f"{number:02}" / "deep"
        folder.mkdir(parents=True)
        (folder.parent / "file").touch()
        folder.chmod(
            0
        )  # reading it fails for a user; for root, its time shows that it was not read
    before = {path: path.stat().st_atime_ns for path in root.glob("*/deep")}
    found = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert len(found["CommonPrefixes"]) == 30
    assert {path: path.stat().st_atime_ns for path in root.glob("*/deep")} == before


NAME = st.text("ab/.-é", min_size=1, max_size=5)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sets(NAME, max_size=12), NAME | st.just(""), st.sampled_from(["", "/", "a", "/a"]), NAME,
    st.integers(1, 4), st.sets(NAME, max_size=12), st.integers(1, 100),
)  # fmt: skip
def test_any_keys_are_listed_as_sorting_them_would(
    tmp_path_factory, keys, prefix, delimiter, after, most, empty, size
):
    """Whatever the budget is, and wherever empty folders use it up."""
    bucket = Bucket(str(tmp_path_factory.mktemp("bucket")))
    for name in empty:
        Path(bucket.root, name.strip("./")).mkdir(parents=True, exist_ok=True)
    for key in keys:
        with bucket.create(key) as new:
            new.describe(ObjectRecord(etag="e"))
            new.publish()
    items, start = [], after
    while start is not None:
        budget = Budget(size, seconds=3600)
        page = list_page(bucket, ListOptions(prefix, delimiter, start, most), budget=budget)
        assert page.next is None or page.next != start
        items += [*(info.key for info in page.objects), *page.prefixes]
        start = page.next
    assert sorted(items) == sorted(expected(keys, prefix, delimiter, after))


def expected(keys: set[str], prefix: str, delimiter: str, after: str) -> set[str]:
    seen: set[str] = set()
    for key in keys:
        if not key.startswith(prefix) or key.encode() <= after.encode():
            continue
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        found = key if end < 0 else key[: end + len(delimiter)]
        if found == after and end >= 0:
            continue  # a whole common prefix counts as seen
        seen.add(found)
    return seen


@pytest.fixture
def sparse(tmp_path: Path) -> Iterator[S3Endpoint]:
    """Few keys among many empty folders, listed by a server that reads few folders at a time."""
    root = tmp_path / "buckets" / BUCKET
    for number in range(200):
        (root / f"{number:03}" / "none" / "either").mkdir(parents=True)
    for key in SPARSE:
        (root / key).parent.mkdir(exist_ok=True)
        (root / key).write_bytes(b"x")
    with serving(S3(tmp_path / "buckets", lambda: Budget(200, seconds=3600)), tmp_path) as endpoint:
        yield endpoint


SPARSE = ["000/a", "000/b", "100/a", "100/none-b", "199/z"]
FORMS = {
    "list_objects": "Contents",
    "list_objects_v2": "Contents",
    "list_object_versions": "Versions",
}


@pytest.mark.parametrize("form", FORMS)
def test_pages_end_early_where_nothing_is_found_and_lose_no_key(sparse: S3Endpoint, form):
    """Some of them are empty, and every one has a position to continue from."""
    pages = list(sparse.client().get_paginator(form).paginate(Bucket=BUCKET))
    found = [[item["Key"] for item in page.get(FORMS[form], [])] for page in pages]
    assert [key for keys in found for key in keys] == SPARSE
    assert [] in found[:-1]
    assert [page["IsTruncated"] for page in pages] == [True] * (len(pages) - 1) + [False]


@pytest.mark.parametrize("form", FORMS)
def test_common_prefixes_are_listed_once_over_pages_that_end_early(sparse: S3Endpoint, form):
    def listed(**given: str) -> list[str]:
        pages = sparse.client().get_paginator(form).paginate(Bucket=BUCKET, **given)
        return [
            item["Prefix"]
            for page in [*pages, last_of(sparse, form, **given)]
            for item in page.get("CommonPrefixes", [])
        ]

    assert listed(Delimiter="/") == ["000/", "100/", "199/"]
    assert listed(Delimiter="none") == ["100/none"]
    assert listed(Delimiter="/", Prefix="1") == ["100/", "199/"]
    assert listed(Delimiter="/", Prefix="150/") == []
    assert listed(Delimiter="/", Prefix="nothing") == []


def last_of(endpoint: S3Endpoint, form: str, **given: str) -> dict[str, object]:
    """Nothing is left after the last key, whatever the form calls it."""
    marker = {"list_objects": "Marker", "list_objects_v2": "StartAfter"}.get(form, "KeyMarker")
    found = getattr(endpoint.client(), form)(Bucket=BUCKET, **{**given, marker: "199/z"})
    assert not found["IsTruncated"]
    return dict(found)


def test_endlessly_nested_folders_are_listed_page_by_page(tmp_path: Path):
    """It may hold an object, or not: only the last page can know."""
    bucket = Bucket(str(tmp_path))
    for number in range(100):
        (tmp_path / "deep" / f"{number:03}" / "none").mkdir(parents=True)
    options = ListOptions(delimiter="/")
    page = list_page(bucket, options, budget=Budget(100, seconds=3600))
    assert not page.prefixes
    assert page.next is not None
    assert page.next.startswith("deep/0")
    assert prefixes_of(bucket) == []
    (tmp_path / "deep" / "099" / "none" / "object").touch()
    assert prefixes_of(bucket) == ["deep/"]


def prefixes_of(bucket: Bucket) -> list[str]:
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = list_page(
            bucket, ListOptions(delimiter="/", after=after), budget=Budget(100, seconds=3600)
        )
        found += page.prefixes
        after = page.next
    return found


def test_files_that_are_no_objects_use_the_budget(tmp_path: Path):
    bucket = Bucket(str(tmp_path))
    for number in range(30):
        os.mkfifo(tmp_path / f"{number:02}")
    (tmp_path / "object").touch()
    page = list_page(bucket, ListOptions(), budget=Budget(26, seconds=3600))
    assert (page.objects, page.next) == ([], "09")
    rest = list_page(bucket, ListOptions(after="09"), budget=Budget(1000, seconds=3600))
    assert ([info.key for info in rest.objects], rest.next) == (["object"], None)


def test_a_page_is_full_where_there_are_keys_however_little_the_budget_is(tmp_path: Path):
    bucket = Bucket(str(tmp_path))
    for number in range(1200):
        (tmp_path / f"{number:04}").touch()
    page = list_page(bucket, ListOptions(), budget=Budget(1, seconds=0))
    assert (len(page.objects), page.next) == (1000, "0999")


def test_what_a_common_prefix_covers_is_passed_over(tmp_path: Path):
    """With a delimiter that is no slash it is a part of a folder; also at the end of all names."""
    bucket = Bucket(str(tmp_path))
    for name in (b"a-1", b"a-2/x", b"a-2/y", b"a.", b"b-", b"\xff-1", b"\xff-2", b"\xff\xff-"):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    page = list_page(bucket, ListOptions(delimiter="-"))
    assert page.prefixes == ["a-", "b-", *map(os.fsdecode, (b"\xff-", b"\xff\xff-"))]
    assert [info.key for info in page.objects] == ["a."]
    page = list_page(bucket, ListOptions(delimiter=os.fsdecode(b"\xff")))
    assert page.prefixes == [os.fsdecode(b"\xff")]
    assert len(page.objects) == 5


def test_unfinished_uploads_are_read_once_and_within_the_budget(sparse: S3Endpoint):
    client = sparse.client()
    keys = [f"{number:03}" for number in range(250)]
    for key in keys:
        client.create_multipart_upload(Bucket=BUCKET, Key=key)
    with pytest.raises(ClientError) as caught:
        client.list_multipart_uploads(Bucket=BUCKET)
    assert caught.value.response["Error"]["Code"] == "SlowDown"
    found = client.list_multipart_uploads(Bucket=BUCKET)
    assert [upload["Key"] for upload in found["Uploads"]] == keys
    gone = found["Uploads"][0]
    client.abort_multipart_upload(Bucket=BUCKET, Key=gone["Key"], UploadId=gone["UploadId"])
    left = client.list_multipart_uploads(Bucket=BUCKET)
    assert [upload["Key"] for upload in left["Uploads"]] == keys[1:]


def test_obstore_continues_after_empty_pages(sparse: S3Endpoint):
    store = S3Store(
        BUCKET,
        endpoint=sparse.url,
        region=REGION,
        access_key_id=sparse.key_id,
        secret_access_key=sparse.secret,
        client_options={"allow_http": True},
    )
    found = [item["path"] for chunk in obstore.list(store) for item in chunk]
    assert found == SPARSE
    assert obstore.list_with_delimiter(store)["common_prefixes"] == ["000", "100", "199"]


def test_the_aws_cli_continues_after_empty_pages(sparse: S3Endpoint):
    shown = run(sparse, program("aws"), "s3", "ls", "--recursive", f"s3://{BUCKET}/")
    assert [line.split()[-1] for line in shown.splitlines()] == SPARSE
    folders = run(sparse, program("aws"), "s3", "ls", f"s3://{BUCKET}/")
    assert folders.split() == ["PRE", "000/", "PRE", "100/", "PRE", "199/"]


def test_s5cmd_continues_after_empty_pages(sparse: S3Endpoint):
    shown = run(sparse, program("s5cmd"), "ls", f"s3://{BUCKET}/*")
    assert [line.split()[-1] for line in shown.splitlines()] == SPARSE
