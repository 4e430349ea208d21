"""`trackside run` with a module, a shell script or a command in place of a Python script."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from trackside.settings import Settings

PRINTS = "import json, sys\nprint('ARGV ' + json.dumps(sys.argv[1:]))\n"
PLACES = """for name in python pip torchrun; do command -v $name; done
python -c 'import sys, torch; print(sys.prefix != sys.base_prefix)'
"""


@pytest.fixture(autouse=True)
def package(workplace: Path) -> Path:
    folder = workplace / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "train.py").write_text(PRINTS)
    (workplace / "plain.py").write_text(PRINTS)
    return folder


def printed(log: str) -> list[list[str]]:
    """By each process."""
    lines = [line.partition("ARGV ")[2] for line in log.splitlines() if "ARGV [" in line]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (["-m", "package.train", "-p", "lr=1", "--", "a", ""], ["--lr", "1", "a", ""]),
        (["--", "python", "-m", "package.train", "--lr", "0.1", "--"], ["--lr", "0.1", "--"]),
        (["--", "python3", "plain.py", "", "a b"], ["", "a b"]),
        (["--", "sh", "-c", 'exec python plain.py "$@"', "sh", "a  b", "$x"], ["a  b", "$x"]),
        (["--", "env", "X=1", "python", "plain.py", "--wait"], ["--wait"]),
    ],
)
def test_arguments_reach_what_runs(command: Command, typed: list[str], arguments: list[str]):
    done = command("run", "--wait", *typed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed(done.stdout) == [arguments]


def test_torchrun_is_that_of_the_job_s_interpreter(command: Command):
    done = command("run", "--wait", "--", "torchrun", "--nproc-per-node", "1", "plain.py", "-x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed(done.stdout) == [["-x"]]
    assert "/.overlay/bin/torchrun --nproc-per-node 1 plain.py -x" in done.stdout


def test_a_shell_script_finds_the_job_s_programs(command: Command, workplace: Path):
    (workplace / "places.sh").write_text(PLACES)
    done = command("run", "places.sh", "--wait", PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("python", "pip", "torchrun"):
        assert f"/.overlay/bin/{name}\n" in done.stdout
    assert "True\n" in done.stdout


def test_a_command_that_fails_fails_the_job_as_a_script_does(command: Command):
    typed = ("sh", "-c", "echo no luck >&2; exit 7")
    done = command("run", "--wait", "--name", "j", "--", *typed)
    assert done.returncode == 1
    assert "Last line: no luck (exit code 7)" in done.stderr
    shown = command("show", "j").stdout
    assert "command          sh -c 'echo no luck >&2; exit 7'" in shown
    kept = json.loads(Settings.load().layout.job("j").spec.read_bytes())
    assert kept["Trackside"]["Command"] == [*typed]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "Missing argument 'SCRIPT'."),
        (["--"], "Missing argument 'SCRIPT'."),
        (["python", "plain.py", "-x"], "behind `--`: trackside run -- python plain.py"),
        (["--lr", "3", "-m", "package.train"], "behind `--`: trackside run SCRIPT -- --lr …"),
        (["-m", "a/b.py"], "--module = 'a/b.py': must be a module's dotted name"),
        (["plain.py", "-m", "package.train"], "--module = 'package.train': cannot be given with"),
        (["-p", "a=1", "--", "python", "plain.py"], "--hyperparameter = ['a']: are not added"),
    ],
)
def test_what_cannot_be_meant_is_answered_with_the_way_out(
    command: Command, typed: list[str], said: str
):
    done = command("run", *typed)
    assert done.returncode == 2
    assert said in done.stderr
    assert not [*Settings.load().layout.root.glob("jobs/[!.]*")]
