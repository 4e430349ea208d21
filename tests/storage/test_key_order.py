"""Names of a folder in the order of object keys."""

from pathlib import Path

import pytest

from trackside.storage.key_order import KeyRange, names_in_key_order


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bucket"
    for name in ("a", "elsewhere"):
        (folder / name).mkdir(parents=True)
    for name in ("a-b", "b", "a/x"):
        (folder / name).touch()
    (folder / "link").symlink_to("elsewhere")
    return folder


def test_a_folder_sorts_with_its_slash_and_links_are_left_out(folder: Path):
    keys = [name.key for name in names_in_key_order(str(folder), follow_links=False)]
    assert keys == [b"a-b", b"a/", b"b", b"elsewhere/"]


def test_links_to_folders_are_folders_when_followed(folder: Path):
    names = names_in_key_order(str(folder), follow_links=True)
    assert [name.name for name in names if name.is_folder] == ["a", "elsewhere", "link"]


@pytest.mark.parametrize(
    ("folder", "may"), [(b"a/", False), (b"b/", True), (b"b/c/", True), (b"b/d/", True)]
)
def test_folders_before_the_start_of_a_listing_are_not_read(folder: bytes, may: bool):
    assert KeyRange(after=b"b/c/1").has_keys_below(folder) is may


@pytest.mark.parametrize(("folder", "may"), [(b"a/", False), (b"b/", True), (b"b/c/", True)])
def test_folders_outside_the_prefix_are_not_read(folder: bytes, may: bool):
    assert KeyRange(prefix=b"b/c").has_keys_below(folder) is may
