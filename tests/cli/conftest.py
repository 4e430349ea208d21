"""The command line as users run it: a process of its own, on a home of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.job_processes import end_processes_of
from tests.jobs.conftest import STAND_IN
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings, environment

Command = Callable[..., subprocess.CompletedProcess[str]]

TRACKSIDE = (sys.executable, "-m", "trackside.cli")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return tmp_path


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    """Jobs whose supervisors are stand-ins, on the home that the commands see."""
    settings = Settings.load()
    yield Jobs(settings, environment(), supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def terminal() -> Callable[..., Terminal]:
    """Starts a command in a terminal."""

    def start(*arguments: str, columns: int = 80, rows: int = 24, **options: str) -> Terminal:
        environ = {**os.environ, "TERM": "xterm-256color", **options}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environ.pop(name, None)
        return Terminal([*TRACKSIDE, *arguments], environ, columns, rows)

    return start


@pytest.fixture
def command() -> Command:
    def run(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TRACKSIDE, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **options},
            stdin=subprocess.DEVNULL,
        )

    return run
