"""What `trackside run` and `artifacts` do with files of the working folder: real scripts."""

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from trackside.cli.kept_files import summary
from trackside.jobs.kept_files import KeptFile

SCRIPT = """
import os
os.makedirs("checkpoints")
open("checkpoints/last.pt", "w").write("weights")
open("out.csv", "w").write("new")
"""


@pytest.fixture(autouse=True)
def script(workplace: Path) -> Path:
    path = workplace / "train.py"
    path.write_text(SCRIPT)
    return path


def aged(path: Path, content: str) -> Path:
    """Written long enough before the job for its time to tell."""
    path.write_text(content)
    while time.time() - path.stat().st_ctime < 0.2:
        time.sleep(0.02)
    return path


def test_files_come_back_to_where_the_script_would_have_put_them(
    command: Command, workplace: Path
) -> None:
    aged(workplace / "out.csv", "old")
    done = command("run", "train.py", "--name", "one", "--bring-back")
    assert done.returncode == 0, done.stderr
    assert (workplace / "checkpoints/last.pt").read_text() == "weights"
    assert (workplace / "out.csv").read_text() == "new"
    last = done.stdout.splitlines()[-1]
    assert last.startswith("2 files kept (10 B): checkpoints/last.pt, out.csv. Brought to ")


def test_they_come_back_from_a_job_that_failed(
    command: Command, script: Path, workplace: Path
) -> None:
    script.write_text(SCRIPT + "raise SystemExit(3)")
    done = command("run", "train.py", "--name", "one", "--bring-back")
    assert done.returncode == 1
    assert (workplace / "out.csv").read_text() == "new"


def test_a_file_that_changed_since_the_start_stays(
    command: Command, script: Path, workplace: Path
) -> None:
    """As when somebody edits it while the job runs: here it is the script's own doing."""
    (workplace / "src").mkdir()
    aged(workplace / "src/notes.txt", "as sent")
    here = f"open({str(workplace / 'src/out.csv')!r}, 'w').write('mine')\n"
    text = SCRIPT + here + "open('notes.txt', 'w').write('changed')\n"
    (workplace / "src/train.py").write_text(text)
    done = command("run", "train.py", "--source-dir", "src", "--name", "one", "--bring-back")
    assert done.returncode == 0, done.stderr
    assert (workplace / "src/out.csv").read_text() == "mine"
    assert (workplace / "src/out.one.csv").read_text() == "new"
    assert (workplace / "src/notes.txt").read_text() == "changed"
    assert "out.csv is another file and stays; the job's is " in done.stderr


def test_a_person_is_reported_what_was_kept_and_the_command_works(
    command: Command, workplace: Path
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*TRACKSIDE, "run", "train.py", "--name", "one", "--wait"],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200"},
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while data := os.read(ours, 65536):
                said += data
        except OSError:  # the terminal is closed
            pass
        assert process.wait() == 0
    os.close(ours)
    [line] = [line for line in said.decode().splitlines() if " kept (" in line]
    start, _, typed = line.partition(". Bring them here: ")
    assert start == "2 files kept (10 B): checkpoints/last.pt, out.csv"
    assert typed == "trackside artifacts one --download ."
    done = command(*typed.split()[1:])
    assert done.returncode == 0, done.stderr
    assert (workplace / "checkpoints/last.pt").read_text() == "weights"


def test_a_download_replaces_no_other_file(command: Command, workplace: Path) -> None:
    assert command("run", "train.py", "--name", "one", "--wait").returncode == 0
    (workplace / "to").mkdir()
    (workplace / "to/out.csv").write_text("mine")
    for _ in range(2):
        done = command("artifacts", "one", "--download", "to")
        assert done.returncode == 0, done.stderr
    found = {str(path.relative_to("to")) for path in Path("to").rglob("*") if path.is_file()}
    assert found == {"checkpoints/last.pt", "model.tar.gz", "out.csv", "out.one.csv"}
    assert (workplace / "to/out.csv").read_text() == "mine"
    assert (workplace / "to/out.one.csv").read_text() == "new"


def test_they_are_listed_and_shown(command: Command, script: Path) -> None:
    script.write_text(SCRIPT + "import os; os.symlink('out.csv', 'latest')")
    assert command("run", "train.py", "--name", "one", "--wait").returncode == 0
    listed = command("artifacts", "one").stdout
    assert "checkpoints/last.pt" in listed
    assert "s3://trackside/one/files" in listed
    shown = command("show", "one").stdout
    assert "2 files, 10 B, of /opt/ml/code" in shown
    assert "Not kept of /opt/ml/code: 1 file not followed as a link" in shown


def test_many_files_are_named_by_their_folders() -> None:
    paths = ["a.csv", "ckpt/1.pt", "ckpt/2.pt", "runs/exp1/events.out.tfevents.1.host", "z", "zz"]
    files = [KeptFile(path, 1000, ()) for path in paths]
    assert summary(files) == "6 files kept (6.0 kB): a.csv, ckpt/…, runs/exp1/…, …"
