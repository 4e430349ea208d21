"""Kept files on their way to storage; whole jobs are in `tests/e2e/test_kept_files.py`."""

import os
import time
from pathlib import Path

import pytest

from trackside.files.script_folder import ScriptFolder
from trackside.storage.locate import locate
from trackside.supervisor.kept_sync import KeptSync
from trackside.supervisor.working_folder import Baseline, WorkingFolder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


class Kept:
    def __init__(self, code: Path) -> None:
        self.stored = code.parent / "stored"
        self.said: list[str] = []
        self.lists: list[list[str]] = []
        folder = WorkingFolder(ScriptFolder(code), Baseline(), most_bytes=1e9)
        to = locate(str(self.stored), home=code.parent)
        self.sync = KeptSync(
            "/opt/ml/code", folder, to, list_events=self.lists.append, log=self.said.append
        )

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.stored.rglob("*") if path.is_file()}


@pytest.fixture
def kept(code: Path) -> Kept:
    return Kept(code)


def write(path: Path) -> None:
    """A file that has been left alone for a while."""
    path.write_text("x")
    written = time.time() - 10
    os.utime(path, (written, written))


def test_a_long_pass_leaves_the_rest_to_the_next_one(kept: Kept, code: Path) -> None:
    for name in "abc":
        write(code / name)
    kept.sync.pass_seconds = 0.0
    kept.sync.tick()
    for done in range(1, 4):
        kept.sync.tick()
        assert len(kept.names) == done
    kept.sync.tick(last=True)
    assert kept.said == []


def test_a_file_that_cannot_be_stored_is_given_up_until_it_changes(kept: Kept, code: Path) -> None:
    write(code / "two\nlines")
    write(code / "good")
    for _ in range(3):
        kept.sync.tick()
    assert kept.names == {"good"}
    assert kept.sync.state.pending_files == 0
    kept.sync.tick(last=True)
    assert kept.sync.state.num_files == 1
    assert kept.said == [
        "Not kept of the working folder: 1 file not readable or storable (two lines)."
    ]


def test_event_files_are_listed_when_they_come_and_sent_by_others(kept: Kept, code: Path) -> None:
    kept.sync.tick()
    (code / "events.out.tfevents.1.host").write_text("1234")
    for _ in range(3):
        kept.sync.tick()
    kept.sync.tick(last=True)
    assert kept.lists == [["events.out.tfevents.1.host"]]
    assert kept.names == set()
    assert (kept.sync.state.num_files, kept.sync.state.size_bytes) == (1, 4)
