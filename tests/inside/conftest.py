"""Scripts that track themselves: real processes that nobody but the test started."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.job_processes import end_processes_of
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.records.host_processes import supervisor_lives
from trackside.records.layout import FIRST_HOST, HostFolder
from trackside.settings import Settings


class Scripts:
    """One TRACKSIDE_HOME, and scripts of which each calls `trackside.init`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings.load()
        self.jobs = Jobs(self.settings, dict(os.environ))
        self.go = folder / "go"
        """What a script waits for that calls `wait_for_go()`."""
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self, source: str, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        script = self.folder / "train.py"
        script.write_text(_HEAD + source)
        process = subprocess.Popen(
            [sys.executable, "train.py", *arguments],
            cwd=self.folder,
            env={**os.environ, "GO": str(self.go), **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(
        self, source: str, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(source, *arguments, environ=environ)
        out, err = process.communicate(timeout=150)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def names(self) -> list[str]:
        jobs = self.settings.layout.jobs
        listed = os.listdir(jobs) if jobs.is_dir() else []
        return sorted(name for name in listed if not name.startswith("."))

    @property
    def name(self) -> str:
        """Of the only run."""
        [name] = self.names
        return name

    def host(self, name: str) -> HostFolder:
        return self.settings.layout.job(name).host(FIRST_HOST, 1)

    def ended(self, name: str | None = None) -> Record:
        """The record of a run that has ended, or is about to; nothing of it is at work any more."""
        name = name or self.name

        def is_over() -> bool:
            self.jobs.reconcile(name)
            return self.jobs.record(name).history.state.is_final

        until(is_over, seconds=120)
        until(lambda: not supervisor_lives(self.host(name)))
        return self.jobs.record(name)

    def until_training(self, name: str) -> None:
        until(lambda: "Training" in self.settings.layout.job(name).journal.read_text(), seconds=120)

    def end_all(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        end_processes_of(self.settings.home)


_HEAD = """\
import os, sys, time
import trackside

def wait_for_go():
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.02)

"""


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    made = Scripts(tmp_path)
    try:
        yield made
    finally:
        made.end_all()
