"""A job whose host shares no files with its submitter: both see the same object store, no more."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Server, environment_for
from tests.contract.toy_placement import ToyPlacement, free
from tests.e2e.conftest import Job, Machine, end
from tests.job_processes import end_processes_of
from tests.wait import until
from trackside.errors import InvalidSpec
from trackside.placement import choose
from trackside.records.group import read_group
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.placed import Placed
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.system import processes

SCRIPT = """
import json, os
keys = ("OF_THE_HOST", "OF_THE_SUBMITTER", "ASKED_FOR", "TRACKSIDE_GROUP_FILE")
seen = {key: os.environ.get(key) for key in keys}
with open("/opt/ml/model/seen.json", "w") as file:
    json.dump(seen, file)
print("trained")
"""
WAITS = """
import os, time
print("attempt begins", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
"""


class Submitter(Machine):
    bucket = ""

    def place(self, script: str, name: str, **options: Any) -> Job:
        """Submit a script to the toy placement."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(script)
            tar.addfile(info, io.BytesIO(script.encode()))
        keys = JobKeys(f"s3://{self.bucket}/out", name)
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "HyperParameters": {
                    "sagemaker_program": "train.py",
                    "sagemaker_submit_directory": keys.source,
                },
                "OutputDataConfig": {"S3OutputPath": keys.output},
                "Environment": {"GO": str(self.go), "ASKED_FOR": "hush-4711"},
                "Trackside": {"Placement": "toy", "GraceSeconds": 60, **options},
            }
        )
        self.jobs.submit(spec, source=[content.getvalue()])
        return Job(self, name)


@pytest.fixture
def cluster(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, value in environment_for(s3_server.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OF_THE_SUBMITTER", "yes")
    folder = tmp_path / "cluster"
    folder.mkdir()
    monkeypatch.setattr(ToyPlacement, "cluster", folder, raising=False)
    monkeypatch.setitem(choose.PLACEMENTS, "toy", f"{ToyPlacement.__module__}:ToyPlacement")
    yield folder
    for job in folder.glob("machines/*/jobs/*"):
        end(JobFolder(job))
    end_processes_of(folder)
    free(folder)


@pytest.fixture
def submitter(cluster: Path, bucket: str, tmp_path: Path) -> Iterator[Submitter]:
    machine = Submitter(tmp_path, dict(os.environ))
    machine.bucket = bucket
    yield machine
    end_processes_of(machine.settings.home)


def folder_of(cluster: Path, name: str) -> JobFolder:
    return Home(cluster / "machines" / "algo-1").job(name)


def test_it_runs_in_a_home_of_its_own_with_what_it_needs(submitter: Submitter, cluster: Path):
    job = submitter.place(SCRIPT, "elsewhere")
    assert job.wait().state.status is Status.COMPLETED
    assert json.loads(job.model()["seen.json"]) == {
        "OF_THE_HOST": "algo-1",
        "OF_THE_SUBMITTER": None,
        "ASKED_FOR": "hush-4711",
        "TRACKSIDE_GROUP_FILE": None,
    }
    theirs = folder_of(cluster, "elsewhere")
    group = read_group(theirs)
    assert group is not None
    assert (group.host, group.epoch, group.shares_files) == ("algo-1", 1, False)
    assert "hush-4711" not in theirs.group.read_text()
    assert not job.host().record.exists(), "the submitter's folder is not the host's"
    assert theirs.journal.read_bytes() == job.folder.journal.read_bytes()


def test_why_it_waits_is_its_status_message_and_no_answer_changes_nothing(
    submitter: Submitter, cluster: Path
):
    (cluster / "full").touch()
    job = submitter.place(SCRIPT, "waits")
    submitter.jobs.reconcile("waits")
    assert job.history().message == "Waiting for toy: no machine is free"
    (cluster / "away").touch()
    for _ in range(25):
        submitter.jobs.reconcile("waits")
    assert job.history().message == "Waiting for toy: no machine is free"
    for name in ("away", "full"):
        (cluster / name).unlink()
    assert job.wait().state.status is Status.COMPLETED


def test_an_engine_that_is_away_at_the_start_delays_the_job(submitter: Submitter, cluster: Path):
    (cluster / "away").touch()
    job = submitter.place(SCRIPT, "late")
    assert job.history().message == "Waiting for toy: the head node does not respond"
    assert job.history().state.secondary is Secondary.STARTING
    (cluster / "away").unlink()
    assert job.wait().state.status is Status.COMPLETED


@pytest.mark.nightly
def test_a_group_whose_lead_is_gone_is_placed_anew_in_the_next_attempt(
    submitter: Submitter, cluster: Path
):
    job = submitter.place(WAITS, "lost")
    theirs = folder_of(cluster, "lost")
    until(lambda: (theirs.host("algo-1", 1).sandbox / "process.json").exists())
    end(theirs)  # as if its machine had failed
    submitter.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED
    assert history.attempt == 2
    placed = Placed.read(job.folder)
    assert placed is not None
    assert (placed.epoch, placed.attempt, placed.hosts["algo-1"].revivals) == (2, 2, 1)
    group = read_group(theirs)
    assert group is not None
    assert group.epoch == 2
    assert not list((cluster / "lost.1").glob("bundle.json")), "what was freed has no secrets"


def test_a_supervisor_that_died_is_started_again_on_its_machine(
    submitter: Submitter, cluster: Path
):
    job = submitter.place(WAITS, "revived")
    host = folder_of(cluster, "revived").host("algo-1", 1)
    until((host.sandbox / "process.json").exists)
    record = processes.Identity.from_record(json.loads(host.supervisor.read_text()))
    processes.send_signal(record, 9)
    until(lambda: json.loads(host.supervisor.read_text())["pid"] != record.pid)
    submitter.go.touch()
    until(lambda: (stored := _stored_journal(job)) is not None and b'"Completed"' in stored)


def _stored_journal(job: Job) -> bytes | None:
    try:
        return job.stored(JobKeys.of(job.spec).journal)
    except Exception:  # noqa: BLE001 not there yet
        return None


def test_a_folder_of_the_submitter_is_refused(submitter: Submitter, tmp_path: Path):
    with pytest.raises(InvalidSpec, match="is a folder of this machine, and toy runs jobs"):
        submitter.place(SCRIPT, "in-place", InPlace=str(tmp_path))


def test_a_stop_of_a_job_without_a_machine_ends_it(submitter: Submitter, cluster: Path):
    (cluster / "away").touch()
    job = submitter.place(SCRIPT, "unwanted")
    submitter.jobs.stop("unwanted")
    assert job.wait().state.status is Status.STOPPED
