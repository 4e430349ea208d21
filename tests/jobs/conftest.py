"""Jobs on a home of their own, with stand-in supervisors that are real processes."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import trackside
from tests.job_processes import end_processes_of, until_they_have_left
from tests.wait import until
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.records import hosts
from trackside.records.host_processes import is_supervised
from trackside.records.journal import History
from trackside.records.layout import Home, JobFolder
from trackside.records.placed import Placed, PlacedHost
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.system import processes
from trackside.system.processes import Identity

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in_supervisor.py")))
ENVIRON = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(Path(trackside.__file__).parent.parent),
    "SECRET_TOKEN": "hush-4711",
}


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


def make_jobs(settings: Settings) -> Jobs:
    return Jobs(settings, ENVIRON, supervisor_command=STAND_IN)


def make_spec(name: str = "job-1", *, num_hosts: int = 1, **changes: Any) -> JobSpec:
    """`hyper` holds what the stand-in is to do; other changes are members of the request."""
    hyper = {"sagemaker_program": "train.py", **changes.pop("hyper", {})}
    return JobSpec.from_request(
        {
            "TrainingJobName": name,
            "HyperParameters": hyper,
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
            "ResourceConfig": {"InstanceCount": num_hosts},
            **changes,
        }
    )


def identity_at(path: Path) -> Identity:
    record: Any = durable.read_json(path)
    return Identity(record["pid"], record["started"], record["boot_id"])


def kill_supervisor(folder: JobFolder, host: str = "algo-1", attempt: int = 1) -> Identity:
    """SIGKILL, and wait until it is gone."""
    identity = identity_at(folder.host(host, attempt).supervisor)
    processes.send_signal(identity, signal.SIGKILL)
    until(lambda: not processes.is_alive(identity))
    return identity


def placed_host(folder: JobFolder, host: str = "algo-1") -> PlacedHost:
    placed = Placed.read(folder)
    assert placed is not None
    return placed.hosts[host]


def change_placed(folder: JobFolder, host: str = "algo-1", **changes: Any) -> None:
    placed = Placed.read(folder)
    assert placed is not None
    placed.with_host(host, replace(placed.hosts[host], **changes)).write(folder)


def run_to_end(jobs: Jobs, name: str = "job-1") -> History:
    """Wait for the job, and until its processes have stored the last of it and left."""
    history = jobs.wait(name, timeout_seconds=120)
    folder = jobs.settings.layout.job(name)
    until_they_have_left(folder.root)
    until(lambda: not is_supervised(folder))  # one that is ending has no arguments any more
    return history


def num_starts(folder: JobFolder, host: str = "algo-1", attempt: int = 1) -> int:
    path = folder.host(host, attempt).root / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def is_training(jobs: Jobs, name: str) -> bool:
    """Of a job that is held: its stand-ins have written all that they will until it is released."""
    record = jobs.record(name)
    places = [jobs.settings.layout.job(name).host(host, 1) for host in record.spec.hosts]
    has_written = all(hosts.read(place.record) for place in places)
    return has_written and record.history.state.secondary == "Training"
