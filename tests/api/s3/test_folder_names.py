"""Names of large folders are cached, and never returned when they are outdated."""

import os
from pathlib import Path
from typing import Any

import pytest

from trackside.api.s3 import folder_names
from trackside.api.s3.beneath import open_folder
from trackside.api.s3.folder_names import FolderNames


@pytest.fixture(autouse=True)
def large_is_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_names, "CACHED_FROM", 3)
    monkeypatch.setattr(folder_names, "_SETTLED_NS", 3600 * 10**9)  # however slow the machine is


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(root / "a")
    for name in ("b", "a-b", "c"):
        (root / name).touch()
    settle(root)
    return root


def settle(path: Path) -> None:
    """As if its last change were long ago."""
    os.utime(path, (1e9, 1e9))


def keys(names: FolderNames, path: Path, after: bytes = b"") -> list[bytes]:
    with open_folder(str(path)) as folder:
        return [each.key for each in names.read(folder.descriptor, after)]


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the folders that are read."""
    scanned: list[int] = []
    scandir = os.scandir

    def counted(descriptor: int) -> Any:
        scanned.append(os.fstat(descriptor).st_ino)
        return scandir(descriptor)

    monkeypatch.setattr(os, "scandir", counted)
    return scanned


def test_names_are_in_key_order_from_any_start(folder: Path):
    assert keys(FolderNames(), folder) == [b"a-b", b"a/", b"b", b"c"]
    assert keys(FolderNames(), folder, b"a/") == [b"a/", b"b", b"c"]
    assert keys(FolderNames(), folder, b"bb") == [b"c"]


def test_a_folder_that_stays_the_same_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    scanned, names = count_scans(monkeypatch), FolderNames()
    for _ in range(3):
        assert len(keys(names, folder)) == 4
    assert scanned == [folder.stat().st_ino]
    (folder / "d").touch()
    assert keys(names, folder)[-1] == b"d"
    assert len(scanned) == 2


def test_a_folder_that_has_just_changed_is_not_believed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    scanned, names = count_scans(monkeypatch), FolderNames()
    (folder / "d").touch()
    for _ in range(3):
        assert len(keys(names, folder)) == 5
    assert len(scanned) == 3


def test_the_number_of_cached_names_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_names, "CACHED_MOST", 9)
    folders = [tmp_path / name for name in "abc"]
    for each in folders:
        each.mkdir()
        for number in range(4):
            (each / str(number)).touch()
        settle(each)
    scanned, names = count_scans(monkeypatch), FolderNames()
    for each in (*folders, *folders[1:], folders[0]):
        keys(names, each)
    assert scanned == [(tmp_path / name).stat().st_ino for name in "abca"]
