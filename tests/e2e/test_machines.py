"""Jobs whose hosts are machines of their own, which share nothing but an S3 server."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import unpacked
from tests.machines import Machine, Network, machines
from tests.machines_placement import CLASS, NAME
from tests.wait import until
from trackside.errors import InvalidSpec, JobNotFound
from trackside.jobs.jobs import Jobs
from trackside.placement import choose
from trackside.records.journal import History
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.records.status import Status
from trackside.settings import Settings

pytestmark = pytest.mark.timeout(900)

LEASE_SECONDS = 20.0
TRAIN = """
import json, os, time
import torch
import torch.distributed as dist

hosts, me = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
os.environ["GLOO_SOCKET_IFNAME"] = os.environ["SM_NETWORK_INTERFACE_NAME"]
at = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
dist.init_process_group("gloo", at, rank=hosts.index(me), world_size=len(hosts))
total = torch.tensor([1.0 + hosts.index(me)])
dist.all_reduce(total)
print("sum", total.item(), "on", open("/tmp/name").read(), flush=True)
for variable in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
    with open(os.path.join(os.environ[variable], me), "w") as file:
        file.write(str(total.item()))
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
print("done", flush=True)
"""
WAITS = """
import os, signal, time

def stop(*_):
    print("asked to stop", flush=True)
    open("/tmp/asked", "w").close()
    raise SystemExit(0)

signal.signal(signal.SIGTERM, stop)
with open(os.path.join(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]), "w") as file:
    file.write("weights")
print("begun on", open("/tmp/name").read(), flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
print("done", flush=True)
"""
SUBMIT = """
import os, sys
from trackside.jobs.jobs import Jobs
from trackside.placement import choose
from trackside.records.spec import JobSpec
from trackside.settings import Settings

choose.PLACEMENTS["{name}"] = "{kind}"
with open(sys.argv[2], "rb") as source:
    Jobs(Settings.load(), dict(os.environ)).submit(
        JobSpec.from_stored(open(sys.argv[1], "rb").read()), source=[source.read()]
    )
print("submitted", flush=True)
sys.stdin.read()
"""


class Place:
    """A submitter at the switch, and the machines that its jobs run on."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.bucket = network.make_bucket()
        for machine in network:
            (machine.disk / "name").write_text(machine.name)
        self.settings = Settings.load()
        self.jobs = Jobs(self.settings, dict(os.environ))

    def spec(self, name: str, *, num_hosts: int = 2, **request: Any) -> JobSpec:
        output = f"s3://{self.bucket}/out"
        return JobSpec.from_request(
            {
                "TrainingJobName": name,
                "HyperParameters": {
                    "sagemaker_program": "train.py",
                    "sagemaker_submit_directory": f"{output}/{name}/source/sourcedir.tar.gz",
                },
                "OutputDataConfig": {"S3OutputPath": output},
                "ResourceConfig": {"InstanceCount": num_hosts, "InstanceType": "local"},
                "Trackside": {"Placement": NAME, "GraceSeconds": 20},
                **request,
            }
        )

    def submit(self, script: str, name: str = "job", **request: Any) -> None:
        self.jobs.submit(self.spec(name, **request), source=[packed(script)])

    def release(self) -> None:
        """Scripts that wait go on."""
        for machine in self.network:
            (machine.disk / "go").touch()

    def wait_for(self, text: str, count: int, name: str = "job") -> None:
        until(lambda: self.log(name).count(text) >= count, seconds=240)

    def log(self, name: str = "job") -> str:
        try:
            return b"".join(line.data for line in self.jobs.logs(name)).decode()
        except JobNotFound:
            return ""

    def reconciled_log(self) -> str:
        """As after any command of the submitter's."""
        self.jobs.reconcile("job")
        return self.log()

    def wait(self, name: str = "job") -> History:
        return self.jobs.wait(name, timeout_seconds=300)

    def stored(self, key: str, name: str = "job") -> bytes:
        """Empty while it is not there."""
        client = self.network.client
        try:
            found = client.get_object(Bucket=self.bucket, Key=f"out/{name}/{key}")
        except client.exceptions.NoSuchKey:
            return b""
        content: bytes = found["Body"].read()
        return content

    def said(self) -> str:
        """What supervisors wrote, for the message of a test that fails."""
        logs = sorted(self.network.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs)


def packed(script: str) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo("train.py")
        info.size = len(script.encode())
        tar.addfile(info, io.BytesIO(script.encode()))
    return archive.getvalue()


def machine_processes(machine: Machine) -> list[str]:
    """Those of supervisors and scripts."""
    listed = machine.run("ps", "-eo", "args").stdout.splitlines()
    return [line for line in listed if "trackside" in line or "train.py" in line]


def folder_on(machine: Machine, name: str = "job") -> JobFolder:
    return machine.home.job(name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with machines("a", "b", "c", "d") as network:
        monkeypatch.setitem(choose.PLACEMENTS, NAME, CLASS)
        monkeypatch.setenv("MACHINES", str(network.folder))
        monkeypatch.setenv("TRACKSIDE_LEASE", str(LEASE_SECONDS))
        monkeypatch.setenv("TRACKSIDE_HEARTBEAT", "1")
        for name, value in network.variables.items():
            monkeypatch.setenv(name, value)
        found = Place(network, tmp_path)
        try:
            yield found
        finally:
            sys.stderr.write(found.said())


def test_two_hosts_train_over_the_network(place: Place):
    place.submit(TRAIN)
    place.wait_for("sum 3.0", 2)
    described = place.jobs.describe("job")
    assert described["SecondaryStatus"] == "Training"
    assert {each["phase"] for each in described["Trackside"]["hosts"].values()} == {"running"}
    assert [row.name for row in place.jobs.list(status=Status.IN_PROGRESS)] == ["job"]
    place.release()
    assert place.wait().state.status is Status.COMPLETED
    assert {"sum 3.0 on a", "sum 3.0 on b"} <= set(place.log().splitlines())
    merged = {"algo-1": b"3.0", "algo-2": b"3.0"}
    assert unpacked(place.stored("output/model.tar.gz")) == merged
    assert unpacked(place.stored("output/output.tar.gz")) == merged
    assert place.jobs.delete("job", data=True) == []
    assert "Contents" not in place.network.client.list_objects_v2(Bucket=place.bucket)


def test_a_short_cut_changes_nothing(place: Place):
    place.submit(WAITS)
    place.wait_for("begun", 2)
    second = place.network["b"]
    second.cut()
    lead_said = place.stored("coordination/1/lead.json")
    until(lambda: place.stored("coordination/1/lead.json") != lead_said)
    second.restore()
    place.release()
    assert place.wait().state.status is Status.COMPLETED
    assert place.jobs.describe("job")["Trackside"]["attempt"] == 1


def test_a_host_that_was_cut_off_stops_and_keeps_its_files(place: Place):
    place.submit(WAITS)
    place.wait_for("begun", 2)
    second = place.network["b"]
    second.cut()
    assert place.wait().state.status is Status.FAILED
    assert "algo-2" in place.jobs.describe("job")["FailureReason"]
    assert not (second.disk / "asked").exists()  # it may be the store that is away
    second.restore()
    until(lambda: (second.disk / "asked").exists(), seconds=120)
    kept = folder_on(second).host("algo-2", 1)
    until(lambda: not machine_processes(second))
    assert (kept.ml / "model" / "algo-2").read_text() == "weights"
    assert "asked to stop" in kept.log.read_text()


def test_a_lead_that_is_killed_is_replaced_with_its_group(place: Place):
    place.submit(WAITS, RetryStrategy={"MaximumRetryAttempts": 1})
    place.wait_for("begun", 2)
    place.network["a"].kill()
    until(lambda: place.reconciled_log().count("begun on c"), seconds=240)
    place.release()
    assert place.wait().state.status is Status.COMPLETED
    assert place.jobs.describe("job")["Trackside"]["attempt"] == 2
    assert json.loads(place.stored("coordination/epoch.json"))["epoch"] == 2
    until(lambda: (place.network["b"].disk / "asked").exists(), seconds=120)


def test_a_job_needs_no_submitter(place: Place, tmp_path: Path):
    (tmp_path / "job.json").write_text(json.dumps(place.spec("job").to_stored()))
    (tmp_path / "source").write_bytes(packed(WAITS))
    submitter = subprocess.Popen(
        [sys.executable, "-c", SUBMIT.format(name=NAME, kind=CLASS), "job.json", "source"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert submitter.stdout is not None
    assert submitter.stdout.readline() == b"submitted\n"
    os.kill(submitter.pid, signal.SIGKILL)
    submitter.communicate()
    os.rename(place.settings.home, tmp_path / "gone")
    place.release()
    until(lambda: place.stored("trackside/artifacts.json"), seconds=240)
    until(lambda: b"Completed" in place.stored("trackside/journal.jsonl"), seconds=120)
    weights = {"algo-1": b"weights", "algo-2": b"weights"}
    assert unpacked(place.stored("output/model.tar.gz")) == weights


def test_the_submitter_stops_it(place: Place):
    place.submit(WAITS)
    place.wait_for("begun", 2)
    place.jobs.stop("job")
    assert place.wait().state.status is Status.STOPPED
    assert place.log().count("asked to stop") == 2
    weights = {"algo-1": b"weights", "algo-2": b"weights"}
    assert unpacked(place.stored("output/model.tar.gz")) == weights


def test_a_location_that_they_do_not_reach_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(InvalidSpec, match="is a folder of this machine, and machines runs jobs"):
        place.submit(WAITS, OutputDataConfig={"S3OutputPath": "/data/out"})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    with pytest.raises(InvalidSpec, match=r"127.0.0.1:9000.*AWS_ENDPOINT_URL_S3.*--advertise"):
        place.submit(WAITS)


def test_a_channel_of_the_submitter_is_uploaded(place: Place, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "one.txt").write_text("1")
    source = {"S3DataSource": {"S3Uri": str(data), "S3DataType": "S3Prefix"}}
    script = "print(open('/opt/ml/input/data/training/one.txt').read())"
    channel = {"ChannelName": "training", "DataSource": source}
    place.submit(script, num_hosts=1, InputDataConfig=[channel])
    assert place.wait().state.status is Status.COMPLETED
    assert "1" in place.log().splitlines()
    assert place.stored("input/training/one.txt") == b"1"
