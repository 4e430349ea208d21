"""The libraries that the drill preloads: they hit what they are to hit, and nothing else."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.drill.wall_clock import WallClock
from benchmarks.drill.write_points import KillPoint, chosen

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)

WRITES = """
import os
with open("first", "w") as file:
    file.write("1")
os.rename("first", "second")
os.mkdir("third")
"""


def exit_code(program: str, folder: Path, variables: dict[str, str]) -> int:
    command = [sys.executable, "-I", "-c", program]
    return subprocess.run(command, cwd=folder, env=variables).returncode


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (place := tmp_path / "place").mkdir()
    return place


@pytest.mark.parametrize(
    ("number", "where", "left"),
    [
        (1, "write first", {"first"}),
        (2, "rename first", {"first"}),
        (3, "mkdir third", {"second"}),
        (4, "", {"second", "third"}),
    ],
)
def test_a_process_is_killed_before_its_nth_write(tmp_path, place, number, where, left):
    point = KillPoint(tmp_path, "-I -c", number)
    assert exit_code(WRITES, place, point.variables) == (-9 if where else 0)
    assert point.where == where
    assert {path.name for path in place.iterdir()} == left
    assert point.num_writes == min(number, 3)


def test_a_process_of_another_role_is_neither_killed_nor_counted(tmp_path, place):
    point = KillPoint(tmp_path, "trackside.supervisor", 1)
    assert exit_code(WRITES, place, point.variables) == 0
    assert point.num_writes == 0


def test_one_of_several_processes_is_killed(tmp_path, place):
    point = KillPoint(tmp_path, "-I -c", 2)
    codes = [exit_code(WRITES, place, point.variables) for _ in range(2)]
    assert codes == [-9, 0]


def test_a_sample_of_points_has_the_first_and_the_last():
    assert chosen(3, None) == [1, 2, 3]
    assert chosen(100, 4) == [1, 34, 67, 100]
    assert chosen(3, 4) == [1, 2, 3]


def test_a_clock_that_is_set_moves_in_a_process_that_runs(tmp_path):
    clock = WallClock(tmp_path)
    program = "import time\nwhile input(): print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=clock.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        off = []
        for shift in (0.0, 86_400.0, -3600.0):
            clock.shift(shift)
            process.stdin.write("now\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            off.append(round((wall - time.time()) / 60.0))
            assert abs(monotonic - time.monotonic()) < 60.0
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait() == 0
    assert off == [0, 1440, -60]
