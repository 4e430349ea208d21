"""The scripts of `.ci`: their syntax, and what `.ci/run` reports at its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
CI = PROJECT / ".ci"
BASH = sorted(path for path in CI.iterdir() if path.read_text().startswith("#!/usr/bin/env bash"))

FLAKY = """
from pathlib import Path

MARK = Path(__file__).with_name("mark")

def test_fails_once():
    assert MARK.exists() or MARK.write_text("") is None and False

def test_passes():
    pass
"""


@pytest.mark.parametrize("script", [*BASH, PROJECT / "requirements" / "lock"], ids=lambda p: p.name)
def test_a_script_can_be_parsed_and_run(script: Path):
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert os.access(script, os.X_OK)


def summary(folder: Path) -> str:
    command = [sys.executable, str(CI / "summary"), str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_tests_that_needed_a_second_try_are_listed_at_the_end(tmp_path: Path):
    found = re.search(r"^second_try='(.*)'$", (CI / "run").read_text(), re.MULTILINE)
    assert found
    tests = tmp_path / "tests" / "jobs"
    tests.mkdir(parents=True)
    (tests / "test_flaky.py").write_text(FLAKY)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:kmock",
                "-n",
                "2",
            ),
            *(*found[1].split(), "--junit-xml", str(tmp_path / "tests.xml"), "tests"),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "tests.log").write_text(done.stdout)
    (tmp_path / "parts").write_text("7 make check\n900 make test\n1 a\n2 b\n3 c\n4 d\n")
    shown = summary(tmp_path)
    assert shown.partition("Needed a second try:\n")[2].split() == [
        "tests/jobs/test_flaky.py::test_fails_once"
    ]
    parts = shown.partition("Slowest parts:\n")[2].splitlines()
    assert [line.split(" s  ")[1] for line in parts[:5]] == [
        *("make test", "make check", "d", "c", "b")
    ]
    assert re.search(r"\d+ s  tests/jobs$", shown, re.MULTILINE)


def test_a_run_that_ends_early_is_summarized_too(tmp_path: Path):
    (tmp_path / "parts").write_text("5 system packages\n")
    assert summary(tmp_path).split() == ["Slowest", "parts:", "5", "s", "system", "packages"]
    (tmp_path / "tests.log").write_text("2 passed\n")
    assert "Needed a second try: none" in summary(tmp_path)


def test_make_test_gives_no_second_try():
    command = ["make", "--dry-run", "--old-file", ".venv/.dev", "test"]
    from_make = ("ARGS", "MAKE", "MFLAGS")  # `make test ARGS=…` exports them to its tests
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(from_make)
    }
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True
    )
    assert "-m pytest" in done.stdout
    assert "--reruns" not in done.stdout


@pytest.mark.parametrize("failing", ["check", "test", "nothing"])
def test_a_run_ends_with_its_summary_and_stops_the_engine(tmp_path: Path, failing: str):
    """Programs and other scripts are replaced by ones that only note that they were called."""
    scripts, programs, calls = tmp_path / ".ci", tmp_path / "bin", tmp_path / "calls"
    scripts.mkdir()
    programs.mkdir()
    for name in ("run", "summary"):
        (scripts / name).write_text((CI / name).read_text())
        (scripts / name).chmod(0o755)
    stand_in = f'#!/bin/sh\necho "$(basename "$0") $1" >>{calls}\n[ "$1" != {failing} ]\n'
    replaced = (
        *(scripts / name for name in ("docker", "clients", "interpreters", "public_scripts")),
        *(programs / name for name in ("make", "apt-get", "npm")),
    )
    for path in replaced:
        path.write_text(stand_in)
        path.chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run([scripts / "run"], capture_output=True, text=True, env=environ)
    assert (done.returncode == 0) is (failing == "nothing"), done.stderr
    assert "Slowest parts:" in done.stdout
    assert "Left out: Apptainer" in done.stdout  # there is no .ci/apptainer
    assert calls.read_text().splitlines()[-1] == "docker stop"
    assert ("make drill" in calls.read_text()) is (failing == "nothing")
