"""Jobs with event files of their own making, running and finished."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import make_jobs, make_spec
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.records.layout import TENSORBOARD, Home, curves_of
from trackside.settings import Settings
from trackside.storage.locate import locate

Points = Mapping[str, list[tuple[int, float]]]
"""Step and value of each point, by tag."""


@pytest.fixture(autouse=True)
def embedded_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """`s3://` is under the test's home, whatever the developer's own environment says."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "S3_ENDPOINT", "TRACKSIDE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home; echo 'x'")})


@pytest.fixture
def home(settings: Settings) -> Iterator[Home]:
    yield settings.layout
    end_processes_of(settings.home)


@pytest.fixture
def jobs(settings: Settings, home: Home) -> Jobs:
    return make_jobs(settings)


@pytest.fixture
def finished(jobs: Jobs, home: Home) -> Callable[..., str]:
    """Makes a finished job, whose event files are in storage; a file for each run."""

    def make(name: str, runs: Mapping[str, Points], **request: Any) -> str:
        jobs.submit(make_spec(name, **request))
        until(lambda: jobs.record(name).history.state.is_final)
        for run, points in runs.items():
            write(stored_curves(jobs, name) / run, points).close()
        return name

    return make


@pytest.fixture
def running(jobs: Jobs, home: Home) -> Callable[..., Path]:
    """Starts a job that runs until the test ends, and returns the folder of its event files."""

    def start(name: str, **request: Any) -> Path:
        jobs.submit(make_spec(name, hyper={"hold": "1"}, **request))
        folder = home.job(name).host("algo-1", 1).inside(TENSORBOARD)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    return start


def stored_curves(jobs: Jobs, name: str) -> Path:
    spec = jobs.record(name).spec
    local = locate(curves_of(spec), home=jobs.settings.home).local
    assert local is not None
    return local


def write(folder: Path, points: Points, file: EventFile | None = None) -> EventFile:
    """Flushed, and open for more."""
    file = file or EventFile(folder)
    for tag, pairs in points.items():
        for step, value in pairs:
            file.add((tag, value, step, time.time()))
    file.flush()
    return file
