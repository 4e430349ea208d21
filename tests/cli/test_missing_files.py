"""What a script needs from beside it, when only the script is packed."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from trackside.cli.missing_files import advice, warnings


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ("import model", "model.py beside it stays"),
        ("from model import Net", "model.py beside it stays"),
        ("def main():\n    import nets.small", "nets/ beside it stays"),
        ("import model, nets", "model.py and nets/ beside it stay behind"),
    ],
)
def test_modules_beside_a_script_are_named(tmp_path: Path, script: str, missing: str):
    (tmp_path / "model.py").write_text("")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/__init__.py").write_text("")
    (tmp_path / "train.py").write_text(script)
    [reported] = warnings(str(tmp_path / "train.py"))
    assert missing in reported


@pytest.mark.parametrize("script", ["import os, sys", "from . import model", "def f(:", "\0"])
def test_a_script_that_needs_nothing_is_left_alone(tmp_path: Path, script: str):
    (tmp_path / "model.py").write_text("")
    (tmp_path / "train.py").write_text(script)
    assert warnings(str(tmp_path / "train.py")) == []
    assert warnings(str(tmp_path / "missing.py")) == []


def test_the_way_out_is_reported_before_the_job_starts(command: Command, workplace: Path):
    (workplace / "src").mkdir()
    (workplace / "src/train.py").write_text("import model\n")
    (workplace / "src/model.py").write_text("")
    (workplace / "src/requirements.txt").write_text("")
    assert command("run", "src/train.py").stderr == (
        "Warning: Only train.py itself is packed; model.py and requirements.txt beside it stay "
        "behind. `trackside run train.py --source-dir src …` takes the whole folder.\n"
    )
    assert command("run", "train.py", "--source-dir", "src").stderr == ""


@pytest.mark.parametrize(
    "cause",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/a.csv' (exit code 1)",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/code/data/a.csv'",
        "FileNotFoundError: ./data/a.csv not found. (exit code 1)",
        "cat: data/a.csv: No such file or directory (exit code 1)",
        "python: can't open file '/opt/ml/code/data/a.csv': [Errno 2] No such file",
        "FileNotFoundError: Couldn't find any data file at /opt/ml/code/data/a.csv. (exit code 1)",
    ],
)
def test_a_file_that_was_left_behind_is_named_with_the_way_out(workplace: Path, cause: str):
    (workplace / "data").mkdir()
    (workplace / "data/a.csv").touch()
    reported = advice(cause, "train.py", None)
    assert reported.startswith(f"'data/a.csv' is in {str(workplace)!r}, and was not packed.")
    assert "`trackside run train.py --source-dir . …`" in reported
    assert "`--channel data=./data`" in reported
    assert "SM_CHANNEL_DATA" in reported


def test_a_file_beside_the_script_is_found_from_elsewhere(workplace: Path):
    (workplace / "src").mkdir()
    (workplace / "src/words.txt").touch()
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'words.txt'"
    reported = advice(missing, "src/train.py", None)
    assert "`trackside run train.py --source-dir src …` takes that folder along." in reported
    assert "`trackside run --in-place train.py --source-dir src …` runs in the folder" in reported
    assert "--channel" not in reported
    assert advice(missing, "train.py", "src") == ""  # it was packed: something else is wrong


@pytest.mark.parametrize(
    "cause",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.csv'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/etc/nothing'",
        "FileNotFoundError: [Errno 2] No such file or directory: '../data'",
        "FileNotFoundError: [Errno 2] No such file or directory: ''",
        "ValueError: no (exit code 1)",
    ],
)
def test_of_other_files_nothing_is_guessed(workplace: Path, cause: str):
    (workplace.parent / "data").mkdir(exist_ok=True)
    assert advice(cause, "train.py", None) == ""
    assert advice(cause, None, None) == ""


def test_a_relative_path_that_fails_is_answered_when_the_job_has_failed(
    command: Command, workplace: Path
):
    (workplace / "data").mkdir()
    (workplace / "data/a.csv").write_text("1\n")
    (workplace / "train.py").write_text("print(open('data/a.csv').read())\n")
    done = command("run", "train.py", "--wait")
    assert done.returncode == 1
    assert "`trackside run train.py --source-dir . …` takes that folder along." in done.stderr
    again = command("run", "train.py", "--source-dir", ".", "--wait")
    assert again.returncode == 0
