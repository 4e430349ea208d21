"""A disk that is full costs what has no room on it, and nothing else: drill cases 25 to 28."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.conftest import Machine, made_machine
from tests.server_process import TRACKSIDE, ServerProcess
from tests.small_disk import fill, small_disk
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.records.status import Status
from trackside.settings import Settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small disk")

FILL = """
import os, sys, time

def fill():
    with open("/opt/ml/output/data/filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass

def wait_for(name):
    while not os.path.exists(os.path.join(os.environ["GO"], name)):
        time.sleep(0.01)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with small_disk(tmp_path / "disk", "6m") as disk:
        monkeypatch.setenv("TRACKSIDE_HOME", str(disk / "home"))
        with made_machine(tmp_path) as machine:
            machine.go.mkdir()
            yield machine


def command(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRACKSIDE, *arguments],
        env={**os.environ, "TRACKSIDE_HOME": str(machine.settings.home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_script_that_prints_on_a_full_disk_goes_on_and_what_is_missing_is_counted(
    machine: Machine, tmp_path: Path
):
    script = """
for number in range(100):
    print("before", number, flush=True)
fill()
for number in range(20_000):
    os.write(1, b"while full %d\\n" % number)  # a line at a time, so that none is cut
wait_for("freed")
for number in range(100):
    print("after", number, flush=True)
open("/opt/ml/model/m", "w").write("trained")
"""
    job = machine.submit(FILL + script, OutputDataConfig={"S3OutputPath": str(tmp_path / "out")})
    filler = job.host().ml / "output" / "data" / "filler"
    until(lambda: command(machine, "show", job.name).stdout.count("Disk full"))
    assert "Disk full" in command(machine, "jobs").stderr
    assert is_at_rest(job.host().log)
    filler.unlink()
    (machine.go / "freed").touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    lines = job.log().splitlines()
    for word in ("before", "after"):
        assert [line for line in lines if line.startswith(word)] == [
            f"{word} {number}" for number in range(100)
        ]
    kept = [int(line.split()[-1]) for line in lines if line.startswith("while full")]
    [missing] = [
        int(found[1].replace(",", ""))
        for line in lines
        if (found := re.match(r"\[trackside\] ([\d,]+) bytes of output are missing here", line))
    ]
    lost = sorted(set(range(20_000)) - set(kept))
    assert missing == sum(len(f"while full {number}\n") for number in lost)
    assert kept[-1] == 19_999
    assert "Disk full" not in command(machine, "show", job.name).stdout
    until(lambda: not job.folder.ballast.exists())  # space is given back at the end


def is_at_rest(log: Path) -> bool:
    """Whether the script has printed all and waits: then its log does not grow any more."""
    size = log.stat().st_size
    with pytest.raises(AssertionError):
        until(lambda: log.stat().st_size != size, seconds=1.0)
    return True


def test_a_script_that_dies_of_a_full_disk_leaves_its_last_lines_and_no_scraps(
    machine: Machine, tmp_path: Path
):
    script = """
fill()
for number in range(20_000):
    print("line", number, flush=True)
raise ValueError("the last word")
"""
    job = machine.submit(FILL + script, OutputDataConfig={"S3OutputPath": str(tmp_path / "out")})
    history = job.wait()
    assert history.state.status is Status.FAILED
    assert "No space left on device" in (history.failure_reason or "")
    assert "exit code: 1" in (history.failure_reason or "")
    log = job.log()
    assert "line 19999\n" in log
    assert "ValueError: the last word" in log
    assert "bytes of output are missing here" in log
    scraps = [path for path in machine.settings.home.rglob("*") if ".part" in path.name]
    assert scraps == []


def test_a_supervisor_that_dies_while_the_disk_is_full_costs_nothing(
    machine: Machine, tmp_path: Path
):
    """Not even the ballast is left to the next one: the script takes every byte that is freed."""
    script = """
print("started", flush=True)
while not os.path.exists(os.path.join(os.environ["GO"], "freed")):
    fill()
    time.sleep(0.01)
os.remove("/opt/ml/output/data/filler")
open("/opt/ml/model/m", "w").write("trained")
"""
    job = machine.submit(FILL + script, OutputDataConfig={"S3OutputPath": str(tmp_path / "out")})
    until(lambda: "Disk full" in command(machine, "show", job.name).stdout)
    supervisors = job.host().sandbox / "supervisor"
    first = supervisors.read_text()
    os.kill(int(first.split()[0]), signal.SIGKILL)
    until(lambda: supervisors.read_text() != first)
    second = supervisors.read_text()
    with pytest.raises(AssertionError):  # it waits for the disk, and does not die of it
        until(lambda: supervisors.read_text() != second, seconds=5.0)
    (machine.go / "freed").touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert job.model() == {"m": b"trained"}
    assert job.log().count("started") == 1


# A server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "6m") as disk:
        yield disk


def client(server: ServerProcess, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=server.key.id,
        aws_secret_access_key=server.secret,
    )


def test_a_server_starts_on_a_full_disk_reads_refuses_to_write_and_recovers(disk: Path):
    server = ServerProcess(disk / "home")
    with server:
        s3 = client(server, "s3")
        s3.create_bucket(Bucket="data")
        s3.put_object(Bucket="data", Key="kept", Body=b"kept")
    fill(disk)
    with server:
        s3, jobs = client(server, "s3"), client(server, "sagemaker")
        assert s3.get_object(Bucket="data", Key="kept")["Body"].read() == b"kept"
        assert jobs.list_training_jobs()["TrainingJobSummaries"] == []
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket="data", Key="new", Body=bytes(100_000))
        assert "disk is full" in str(refused.value)
        (disk / "filler").unlink()
        s3.put_object(Bucket="data", Key="new", Body=b"new")
        keys = [each["Key"] for each in s3.list_objects_v2(Bucket="data")["Contents"]]
        assert keys == ["kept", "new"]


def test_a_server_on_a_full_disk_says_so_at_its_start(disk: Path):
    settings = Settings.load({"TRACKSIDE_HOME": str(disk / "home")})
    Jobs(settings, {})
    with ServerProcess(settings.home):
        pass
    fill(disk)
    program = [*TRACKSIDE, "server", "--listen", "127.0.0.1:0"]
    environ = {**os.environ, "TRACKSIDE_HOME": str(settings.home)}
    with subprocess.Popen(program, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "Disk full" in line)
        process.terminate()
    assert "nothing can be stored" in said


def test_a_home_that_cannot_be_made_is_named_with_the_way_out(disk: Path):
    fill(disk)
    done = subprocess.run(
        [*TRACKSIDE, "server", "--listen", "127.0.0.1:0"],
        env={**os.environ, "TRACKSIDE_HOME": str(disk / "home"), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "Disk full" in done.stderr
    assert "TRACKSIDE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_is_refused_on_a_read_only_disk(machine: Machine, tmp_path: Path):
    disk = machine.settings.home.parent
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    machine.settings.home.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    refused = command(machine, "run", str(script), "--name", "late")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert refused.returncode != 0
    assert "is read-only" in refused.stderr
    assert "Make it writable" in refused.stderr
    assert "Free some" not in refused.stderr
