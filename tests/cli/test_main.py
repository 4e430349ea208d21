"""The front door: help, errors, exit codes, and how little is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import trackside
from tests.cli.conftest import Command
from tests.small_disk import fill, small_disk
from trackside.cli.failures import exit_code, explain, wrapped
from trackside.cli.main import COMMANDS, SUMMARIES, SYNONYMS, main
from trackside.errors import (
    AccessRefused,
    InputError,
    InvalidSpec,
    JobFailed,
    JobNotFound,
    ObjectNotFound,
    StoreUnreachable,
    Violation,
)

PROJECT = Path(trackside.__file__).parents[2]


def test_help_lists_every_command():
    shown = CliRunner().invoke(main, ["--help"]).output
    assert [name for name in COMMANDS if f"\n  {name} " in shown] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(name: str):
    shown = CliRunner().invoke(main, [name, "--help"]).output
    assert f"\n    trackside {name}" in shown


def test_the_version_names_commit_and_extras():
    shown = CliRunner().invoke(main, ["--version"])
    assert shown.exit_code == 0
    assert shown.output.startswith(f"trackside {trackside.__version__} (commit ")
    assert "; extras: " in shown.output


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("jbos", "Did you mean `trackside jobs`?"),
        ("list", "Did you mean `trackside jobs`?"),
        ("status", "Did you mean `trackside show`?"),
        ("train.py", "`trackside run train.py`"),
        ("xyzzy", "`trackside --help` lists them."),
    ],
)
def test_an_unknown_command_is_wrong_usage_and_the_likely_one_is_named(typed: str, advice: str):
    answer = CliRunner().invoke(main, [typed])
    assert answer.exit_code == 2
    assert f"No command is called {typed!r}. " in answer.output
    assert advice in answer.output


def test_other_programs_words_lead_to_commands_that_exist():
    assert set(SYNONYMS.values()) <= set(COMMANDS)
    assert set(SYNONYMS) & set(COMMANDS) == set()


def test_an_error_is_one_block_on_standard_error(command: Command):
    done = command("show", "nothing-here")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: No job is called 'nothing-here'.")
    assert "Traceback" not in done.stderr


def test_debug_shows_the_trace(command: Command):
    assert "Traceback" in command("--debug", "show", "nothing-here").stderr


def test_a_wrong_setting_is_wrong_input(command: Command):
    done = command("jobs", TRACKSIDE_HMOE="x")
    assert done.returncode == 2
    assert "Unknown setting 'TRACKSIDE_HMOE'" in done.stderr


def test_a_home_that_cannot_be_used_is_said_without_a_trace(command: Command, tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "train.py").write_text("")
    done = command("run", "train.py", TRACKSIDE_HOME=str(tmp_path / "file"))
    assert done.returncode != 0
    assert done.stderr.startswith(f"Error: {tmp_path / 'file'}")
    assert done.stderr.endswith("Set TRACKSIDE_HOME to a folder that you can write in.\n")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_home_on_a_full_disk_is_named(command: Command, tmp_path: Path):
    """Nothing in the system's own error says which file could not be written."""
    with small_disk(tmp_path / "disk") as disk:
        (disk / "home").mkdir()
        fill(disk)
        done = command("server", "--listen", "127.0.0.1:0", TRACKSIDE_HOME=str(disk / "home"))
    assert done.returncode != 0
    assert "Disk full: the disk of" in done.stderr
    assert "Free some space, or set TRACKSIDE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (JobFailed("j", "AlgorithmError: x"), 1),
        (InvalidSpec([Violation("a", 1, "b")]), 2),
        (InputError("x"), 2),
        (JobNotFound("j"), 2),
        (ObjectNotFound("x"), 2),
        (StoreUnreachable("x"), 3),
        (AccessRefused("x"), 3),
        (ConnectionRefusedError("x"), 3),
    ],
)
def test_exit_codes(failure: Exception, code: int):
    assert exit_code(failure) == code


def test_long_errors_are_wrapped_at_words_and_quoted_logs_are_not():
    lines = wrapped(f"Error: {'word ' * 30}\n  {'deep ' * 30}\n  | {'x ' * 60}", 60).splitlines()
    assert max(map(len, lines[:-1])) <= 60
    assert lines[1].startswith("  word")
    assert lines[-2].startswith("    deep")
    assert lines[-1] == f"  | {'x ' * 60}".rstrip()


def test_an_error_cannot_steer_the_terminal():
    shown = explain(JobFailed("j", "\x1b[2J\x1b]8;;http://evil\x07 \u202e gone"))
    assert shown.isprintable()
    assert r"\x1b[2J" in shown


def test_starting_a_job_loads_nothing_that_only_draws():
    code = "import sys, trackside.cli.main, trackside.cli.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded & {"rich", "typer", "pydantic", "obstore", "torch", "numpy", "asyncio"} == set()
    ours = {name for name in done.stdout.split() if name.startswith("trackside.")}
    later = [name for name in ours if name.startswith(("trackside.sdk", "trackside.jobs"))]
    assert later == [], "loaded once the supervisor is on its way"


def test_what_starts_a_job_loads_nothing_that_looks_at_one():
    code = (
        "import sys, trackside.sdk.estimator, trackside.jobs.local_submitter; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    names = (
        "jobs",
        "logs",
        "artifacts",
        "reconcile",
        "scheduler",
        "describe",
        "garbage_collection",
    )
    assert loaded & {f"trackside.jobs.{name}" for name in names} == set()
    assert not [name for name in loaded if name.startswith("trackside.rules")]


def test_every_command_and_option_is_in_the_documentation():
    text = (PROJECT / "docs" / "cli.md").read_text()
    sections = {
        heading.strip(" `"): body
        for heading, _, body in (part.partition("\n") for part in text.split("\n## ")[1:])
    }
    for name in COMMANDS:
        shown = main.get_command(None, name)  # type: ignore[arg-type]
        assert shown is not None
        inner = shown.commands.values() if isinstance(shown, click.Group) else ()
        for option in [param for each in (shown, *inner) for param in each.params]:
            if option.param_type_name == "option":
                assert f"`{max(option.opts, key=len)}" in sections[f"trackside {name}"], option.opts


def test_the_help_of_all_commands_loads_none_of_them():
    code = (
        "import sys\nfrom trackside.cli.main import main\n"
        "try: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {f"trackside.cli.{name}" for name in COMMANDS}
    assert not loaded & {"rich", "sqlite3", "trackside.records.spec", "trackside.jobs"}
    for name in COMMANDS:
        shown = main.get_command(None, name)  # type: ignore[arg-type]
        assert shown is not None
        assert SUMMARIES[name] == shown.get_short_help_str(1000)
