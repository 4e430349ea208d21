"""Listings: the same as sorting all keys would give, in pages, and without walking too far."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.s3.conftest import BUCKET
from trackside.api.s3.bucket import Bucket
from trackside.api.s3.listing import Question, list_page
from trackside.api.s3.record import ObjectRecord

KEYS = ["a", "a-b", "a/1", "a/b/2", "a/b/3", "b/x", "b//y", "c/", "d", "é/ü", "z z"]
IN_ORDER = sorted(KEYS, key=str.encode)


@pytest.fixture
def filled(s3):
    for key in KEYS:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    return s3


@pytest.mark.parametrize("form", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_pages_bring_every_key_once_and_in_order(filled, form, size):
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


def test_tensorboard_is_told_that_a_bucket_is_a_folder(filled, s3):
    """It asks for what begins with a slash, in the first form. The second is S3's own answer."""
    slash = {"Bucket": BUCKET, "Prefix": "/", "Delimiter": "/"}
    assert s3.list_objects(**slash)["CommonPrefixes"] == [{"Prefix": "/"}]
    assert "CommonPrefixes" not in s3.list_objects_v2(**slash)
    assert "CommonPrefixes" not in s3.list_objects(**slash, Marker="/")
    assert "CommonPrefixes" not in s3.list_objects(Bucket=BUCKET, Prefix="/")
    s3.put_object(Bucket=BUCKET, Key="/own/x", Body=b"")
    assert s3.list_objects(**slash)["CommonPrefixes"] == [{"Prefix": "/own/"}]
    s3.create_bucket(Bucket="empty-one")
    assert "CommonPrefixes" not in s3.list_objects(**{**slash, "Bucket": "empty-one"})


def test_a_listing_goes_on_from_anywhere(filled):
    def after(start: str, **more: str) -> list[str]:
        found = filled.list_objects_v2(Bucket=BUCKET, StartAfter=start, **more)
        return [item["Key"] for item in found.get("Contents", [])]

    assert after("a/b") == IN_ORDER[IN_ORDER.index("a/b/2") :]
    assert after("a/b/2", Prefix="a/") == ["a/b/3"]
    assert after("é/ü") == []
    within = filled.list_objects_v2(Bucket=BUCKET, StartAfter="a/b/2", Delimiter="/")
    assert within["CommonPrefixes"][0]["Prefix"] == "a/"


def test_owner_and_encoding_are_told_when_asked_for(filled):
    found = filled.list_objects_v2(Bucket=BUCKET, FetchOwner=True, EncodingType="url", MaxKeys=50)
    assert found["Contents"][0]["Owner"]["ID"]
    assert found["Contents"][-1]["Key"] == "%C3%A9/%C3%BC"
    assert found["KeyCount"] == len(KEYS)
    assert "Owner" not in filled.list_objects_v2(Bucket=BUCKET)["Contents"][0]
    assert filled.list_objects_v2(Bucket=BUCKET, MaxKeys=0)["KeyCount"] == 0


def test_unfinished_files_and_empty_folders_are_not_listed(filled, place):
    root = place.buckets / BUCKET
    (root / ".trackside-0-1-2.part").write_bytes(b"half")
    (root / "empty" / "folder").mkdir(parents=True)
    os.symlink(root, root / "circle")
    found = filled.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert [item["Prefix"] for item in found["CommonPrefixes"]] == ["a/", "b/", "c/", "é/"]


def test_what_lies_below_a_common_prefix_is_not_walked(place, s3):
    root = place.buckets / BUCKET
    for number in range(30):
        folder = root / f"{number:02}" / "deep"
        folder.mkdir(parents=True)
        (folder.parent / "file").touch()
        folder.chmod(0)  # whoever looks into it as a user fails; root is told by its time
    before = {path: path.stat().st_atime_ns for path in root.glob("*/deep")}
    found = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert len(found["CommonPrefixes"]) == 30
    assert {path: path.stat().st_atime_ns for path in root.glob("*/deep")} == before


NAME = st.text("ab/.-é", min_size=1, max_size=5)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sets(NAME, max_size=12), NAME | st.just(""), st.sampled_from(["", "/", "a", "/a"]), NAME,
    st.integers(1, 4),
)  # fmt: skip
def test_any_keys_are_listed_as_sorting_them_would(
    tmp_path_factory, keys, prefix, delimiter, after, most
):
    bucket = Bucket(str(tmp_path_factory.mktemp("bucket")))
    for key in keys:
        with bucket.create(key) as new:
            new.describe(ObjectRecord(etag="e"))
            new.publish()
    items, start = [], after
    while start is not None:
        page = list_page(bucket, Question(prefix, delimiter, start, most))
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
