"""Event files found by who has them open."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.supervisor.open_event_files import OpenEventFiles

NAME = "events.out.tfevents.1.host"
WRITES = """
import subprocess, sys
files = [open(path, mode) for path, mode in zip(sys.argv[1::2], sys.argv[2::2])]
for file in files:
    if file.writable():
        file.write("abc"); file.flush()
print("READY", flush=True)
sys.stdin.read()
"""
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WRITES!r}, *sys.argv[1:]])"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.communicate()


def start(processes: list["subprocess.Popen[bytes]"], *arguments: object) -> int:
    """A process, of whose child these files are open."""
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"READY\n"
    return process.pid


def relative(path: Path) -> str:
    return str(path).lstrip("/")


def test_files_of_the_whole_family_that_are_written_and_not_covered(started, tmp_path: Path):
    for name in ("a", "code", "read"):
        (tmp_path / name).mkdir()
    (tmp_path / "read" / NAME).write_text("not written")
    arguments = [
        *(tmp_path / "a" / NAME, "w"),
        *(tmp_path / "a" / "other", "w"),
        *(tmp_path / "code" / NAME, "w"),
        *(tmp_path / "read" / NAME, "r"),
    ]
    pid = start(started, *arguments)
    files = OpenEventFiles(lambda: pid, [str(tmp_path / "code")])
    found = files.find()
    assert {path: look.size for path, look in found.items()} == {relative(tmp_path / "a" / NAME): 3}
    files.close()


def test_a_file_is_read_when_it_and_its_process_are_gone(started, tmp_path: Path):
    pid = start(started, tmp_path / NAME, "w")
    clock = Clock()
    files = OpenEventFiles(lambda: pid, [], clock)
    [path] = files.find()
    (tmp_path / NAME).unlink()
    started[0].communicate()
    clock.now = 100
    assert [*files.find()] == [path]
    with open(files.open(path), "rb") as file:
        assert file.read() == b"abc"
    files.close()


def test_searches_become_rare(started, tmp_path: Path):
    asked = []
    clock = Clock()
    files = OpenEventFiles(lambda: asked.append(clock.now), [], clock)
    for second in range(10_000):
        clock.now = float(second)
        files.find()
    assert asked[:5] == [0, 1, 2, 3, 4]
    assert 300 < len(asked) < 400


def test_another_process_of_the_same_number_is_left_alone(started, tmp_path: Path, monkeypatch):
    (tmp_path / "b").mkdir()
    first, second = start(started, tmp_path / NAME, "w"), start(started, tmp_path / "b" / NAME, "w")
    clock = Clock()
    pids = iter([first, second])
    files = OpenEventFiles(lambda: next(pids), [], clock)
    assert len(files.find()) == 1
    clock.now = 50
    assert len(files.find()) == 1
    files.close()


def test_without_a_process_nothing_is_found():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert OpenEventFiles(lambda: None, []).find() == {}
    assert OpenEventFiles(lambda: gone.pid, []).find() == {}
    with subprocess.Popen(["sleep", "1000"]) as idle:
        assert OpenEventFiles(lambda: idle.pid, []).find() == {}
        idle.kill()
