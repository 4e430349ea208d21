"""Jobs on a home of their own, with stand-in supervisors that are real processes."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import trackside
from trackside import durable, processes
from trackside.jobs.jobs import Jobs
from trackside.journal import History
from trackside.layout import Home, JobFolder
from trackside.processes import Identity
from trackside.settings import Settings
from trackside.spec import JobSpec

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
    for path in settings.home.glob("jobs/*/hosts/*/*/supervisor.json"):
        processes.send_signal(identity_at(path), signal.SIGKILL)


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
    eventually(lambda: not processes.is_alive(identity))
    return identity


def run_to_end(jobs: Jobs, name: str = "job-1") -> History:
    """Wait for the job, and until its supervisors have stored the last of it and left."""
    history = jobs.wait(name, timeout_seconds=30)
    for path in jobs.settings.layout.job(name).hosts.glob("*/*/supervisor.json"):
        eventually(partial(_is_gone, identity_at(path)))
    return history


def _is_gone(identity: Identity) -> bool:
    return not processes.is_alive(identity)


def num_starts(folder: JobFolder, host: str = "algo-1", attempt: int = 1) -> int:
    path = folder.host(host, attempt).root / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return answer


def is_training(jobs: Jobs, name: str) -> bool:
    return bool(jobs.describe(name)["SecondaryStatus"] == "Training")
