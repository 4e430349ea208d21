"""The toolkit's lines begin where lines begin, whatever the script has left behind."""

import subprocess
import sys
from pathlib import Path

WRITES = """
import os, sys
from trackside.toolkit import log
os.write(2, sys.argv[1].encode())
log.info("a")
log.info("b")
"""


def logged(tmp_path: Path, left: str) -> list[str]:
    place = tmp_path / "log"
    with place.open("ab") as file:
        command = [sys.executable, "-c", WRITES, left]
        subprocess.run(command, stderr=file, check=True)
    return [line.split(" ", 2)[-1] for line in place.read_text().splitlines()]


def test_a_line_that_the_script_has_left_open_is_ended(tmp_path: Path):
    ours = [f"trackside-toolkit INFO     {each}" for each in "ab"]
    assert logged(tmp_path, "100%|####|") == ["100%|####|", *ours]


def test_nothing_is_added_to_lines_that_are_whole(tmp_path: Path):
    ours = [f"trackside-toolkit INFO     {each}" for each in "ab"]
    assert logged(tmp_path, "done\n") == ["done", *ours]


def test_a_log_that_is_no_file_is_written_as_it_comes():
    command = [sys.executable, "-c", WRITES, "50%"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr.startswith("50%")
    assert len(done.stderr.splitlines()) == 2
