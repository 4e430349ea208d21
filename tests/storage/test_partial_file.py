"""Unfinished files that a killed process left behind, and those that are being written."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trackside.storage.folder import FolderStore
from trackside.storage.partial_file import PartialFile, is_temporary, sweep, write_whole
from trackside.storage.transfer import download

WRITER = """
import sys, time
from trackside.storage.partial_file import PartialFile
file = PartialFile(sys.argv[1])
file.write_at(b"half", 0)
print("writing", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def unfinished(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if is_temporary(name)]


def start_writer(target: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    folder: Path,
) -> None:
    dead, living = start_writer(folder / "a"), start_writer(folder / "b")
    try:
        kill(dead)
        assert len(unfinished(folder)) == 2
        assert not sweep(str(folder))
        assert len(unfinished(folder)) == 1
    finally:
        kill(living)
    assert sweep(str(folder))
    assert os.listdir(folder) == []


def test_the_next_put_into_a_folder_sweeps_it(tmp_path: Path) -> None:
    kill(start_writer(tmp_path / "bucket" / "folder" / "a"))
    FolderStore(tmp_path / "bucket").put("folder/b", b"x")
    assert os.listdir(tmp_path / "bucket" / "folder") == ["b"]


def test_the_next_download_into_a_folder_sweeps_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "bucket")
    store.put("b", b"x")
    target = tmp_path / "target"
    kill(start_writer(target / "a"))
    download(store, [(entry, target / entry.key) for entry in store.list()])
    assert os.listdir(target) == ["b"]


def test_the_sweep_does_not_follow_a_link_named_as_unfinished(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"kept")
    (folder / ".trackside-0-0-0.part").symlink_to(precious)
    assert not sweep(str(folder))
    assert precious.read_bytes() == b"kept"


def test_writers_and_sweepers_at_once_lose_nothing(folder: Path) -> None:
    done = threading.Event()

    def keep_sweeping() -> None:
        while not done.is_set():
            sweep(str(folder))

    def write(number: int) -> None:
        for serial in range(200):
            write_whole(str(folder / f"small-{number}-{serial}"), b"small", None)
            with PartialFile(folder / f"large-{number}-{serial}") as file:
                file.write_at(b"large", 0)
                file.publish(durable=False)

    sweepers = [threading.Thread(target=keep_sweeping) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in (*sweepers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in sweepers:
        thread.join()
    found = sorted(os.listdir(folder))
    assert len(found) == 1200
    assert {(folder / name).read_bytes() for name in found} == {b"small", b"large"}
