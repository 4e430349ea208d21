"""Files of a job, opened by who must not be led astray."""

import os
from pathlib import Path

import pytest

from trackside.rules.plain_files import open_file_below, open_folder_below


def content(base: Path, below: str) -> bytes:
    with open(open_file_below(base, below), "rb") as file:
        return file.read()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "job" / "segments").mkdir(parents=True)
    (tmp_path / "job" / "segments" / "a").write_text("saved")
    (tmp_path / "secret").write_text("a key")
    return tmp_path / "job"


def test_a_file_is_opened_where_it_is(base: Path):
    assert content(base, "segments/a") == b"saved"


@pytest.mark.parametrize("below", ["segments/b", "segments", "segments/a/x", "../secret", "x/y"])
def test_what_is_no_file_below_is_not_there(base: Path, below: str):
    with pytest.raises(FileNotFoundError):
        open_file_below(base, below)


def test_no_link_is_followed(base: Path, tmp_path: Path):
    (base / "segments" / "link").symlink_to(tmp_path / "secret")
    (base / "elsewhere").symlink_to(tmp_path)
    for below in ("segments/link", "elsewhere/secret", "elsewhere/job/segments/a"):
        with pytest.raises(FileNotFoundError):
            open_file_below(base, below)
    with pytest.raises(FileNotFoundError):
        open_folder_below(base, "elsewhere")


def test_a_pipe_holds_up_no_one(base: Path):
    os.mkfifo(base / "pipe")
    with pytest.raises(FileNotFoundError):
        open_file_below(base, "pipe")


def test_no_descriptor_is_left_open(base: Path, tmp_path: Path):
    (base / "link").symlink_to(tmp_path / "secret")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for below in ("segments/a/x", "link", "segments", "segments/b"):
        with pytest.raises(FileNotFoundError):
            open_file_below(base, below)
    assert before in (0, len(os.listdir("/proc/self/fd")))


def test_a_folder_itself_may_be_a_link_where_it_is_trusted(base: Path, tmp_path: Path):
    (tmp_path / "trusted").symlink_to(base)
    assert content(tmp_path / "trusted", "segments/a") == b"saved"
