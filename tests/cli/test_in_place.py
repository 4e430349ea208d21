"""`trackside run --in-place`: the job runs in the folder itself, and nothing of it is packed."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.job_processes import until_they_have_left
from tests.wait import until
from trackside.settings import Settings

SCRIPT = """
import os, sys
print(open("data/a.csv").read(), sys.argv[1:])
os.makedirs("checkpoints", exist_ok=True)
open("checkpoints/last.pt", "a").write("weights ")
open("notes.txt", "w").write("changed")
"""


@pytest.fixture(autouse=True)
def project(workplace: Path) -> Path:
    folder = workplace / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "data/a.csv").write_text("1,2")
    (folder / "notes.txt").write_text("mine")
    (folder / "src/train.py").write_text(SCRIPT)
    os.chdir(folder)
    return folder


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_the_script_reads_and_writes_where_the_command_was_typed(
    command: Command, project: Path, isolation: str
):
    for name in ("one", "two"):
        arguments = ("--in-place", "src/train.py", "--name", name, "--wait", "--", "--amp")
        done = command("run", *arguments, TRACKSIDE_ISOLATION=isolation)
        assert done.returncode == 0, done.stderr
        assert "1,2 ['--amp']" in done.stdout
        assert done.stderr == ""
    assert (project / "checkpoints/last.pt").read_text() == "weights weights "
    assert (project / "notes.txt").read_text() == "changed"
    assert (project / "src/train.py").read_text() == SCRIPT
    home = Settings.load().layout
    spec = json.loads(home.job("one").spec.read_bytes())
    assert spec["Trackside"]["InPlace"] == str(project)
    [archive] = home.buckets.glob("*/one/source/sourcedir.tar.gz")
    with tarfile.open(archive) as stored:
        assert stored.getnames() == ["train.py"], (
            "what it was made of, not the folder's other files"
        )
    kept = command("artifacts", "one", "--download", str(project / "back"))
    assert kept.returncode == 0, kept.stderr
    back = (project / "back/checkpoints/last.pt").read_text()
    assert back == "weights ", "a copy of what the first one made, before the second came"


def test_a_module_and_a_command_run_in_the_named_folder(command: Command, project: Path):
    os.chdir("/")
    module = ("-m", "src.train", "--source-dir", str(project))
    assert command("run", "--in-place", *module, "--wait").returncode == 0
    shell = ("--", "sh", "-c", "echo hello > out.txt")
    done = command("run", "--in-place", "--source-dir", str(project), "--wait", *shell)
    assert done.returncode == 0, done.stderr
    assert (project / "out.txt").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["src/train.py", "--bring-back"], "there is nothing to bring back"),
        (["train.py", "--source-dir", "s3://code/x.tar.gz"], "is no folder of this machine"),
        (["/elsewhere/train.py"], "/elsewhere/train.py"),
        (["-m", "src.train", "--source-dir", "/"], "too much to look through"),
    ],
)
def test_what_cannot_be_run_in_place_is_refused(
    command: Command, arguments: list[str], reported: str
):
    done = command("run", "--in-place", *arguments)
    assert done.returncode == 2
    assert reported in done.stderr
    assert not Settings.load().layout.jobs.exists()


def test_a_server_has_not_this_folder(command: Command):
    server = {
        "TRACKSIDE_URL": "http://127.0.0.1:9",
        "TRACKSIDE_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "TRACKSIDE_SECRET_ACCESS_KEY": "secret",
    }
    done = command("run", "--in-place", "src/train.py", **server)
    assert done.returncode == 2
    assert "--in-place" in done.stderr
    assert "cannot be had at a server, which has not this folder" in done.stderr


def test_who_runs_in_a_folder_where_another_job_runs_is_warned(command: Command, project: Path):
    (project / "wait.py").write_text(
        "import os, time\nwhile not os.path.exists('end'): time.sleep(0.01)\n"
    )
    assert command("run", "--in-place", "wait.py", "--name", "first").returncode == 0
    log = Settings.load().layout.job("first").host("algo-1", 1).log
    until(lambda: log.stat().st_size)
    second = command("run", "--in-place", "src/train.py", "--name", "second", "--wait")
    (project / "end").touch()
    assert second.returncode == 0
    assert second.stderr.startswith("Warning: 'first' runs in this folder too")
    assert command("logs", "-f", "first").returncode == 0
    until_they_have_left(Settings.load().layout.job("first").root)


def test_a_relative_read_that_fails_is_answered_with_it(command: Command, project: Path):
    done = command("run", "src/train.py", "--wait")
    assert done.returncode == 1
    assert "`trackside run --in-place src/train.py …` runs in the folder itself." in done.stderr
