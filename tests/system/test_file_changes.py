"""The kernel reports changes of files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.system.file_changes import FileChanges

FAR_SECONDS = 600.0


@pytest.fixture
def changes() -> Iterator[FileChanges]:
    made = FileChanges()
    yield made
    made.close()


def test_a_wait_ends_when_a_file_grows(changes: FileChanges, tmp_path: Path):
    log = tmp_path / "log"
    log.touch()
    assert changes.watch(str(log))
    assert not changes.watch(str(log))
    assert not changes.wait(0)
    with log.open("a") as file:
        for _ in range(3):
            print("line", file=file, flush=True)
    assert changes.wait(FAR_SECONDS)
    assert not changes.wait(0)


def test_a_file_that_is_replaced_or_removed_has_changed(changes: FileChanges, tmp_path: Path):
    for name in ("replaced", "removed"):
        (tmp_path / name).touch()
        assert changes.watch(str(tmp_path / name))
    (tmp_path / "new").touch()
    os.replace(tmp_path / "new", tmp_path / "replaced")
    assert changes.wait(FAR_SECONDS)
    (tmp_path / "removed").unlink()
    assert changes.wait(FAR_SECONDS)


def test_a_file_that_does_not_exist_is_watched_later(changes: FileChanges, tmp_path: Path):
    late = tmp_path / "late"
    assert not changes.watch(str(late))
    late.touch()
    assert changes.watch(str(late))
