"""Whole jobs on a stand-in for a Kubernetes cluster: a real client, a real supervisor in each pod,
and `tests/kubernetes_cluster.py` in the place of everything else. No true cluster was seen."""

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

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner

from tests.api.training import ended, request
from tests.conftest import S3Server, environment_for
from tests.e2e.conftest import Job, Machine, unpacked
from tests.e2e.test_machines import packed
from tests.kept_port import kept_port, port_of
from tests.kubernetes_cluster import IMAGE, JOBS, PODS, SECRETS, SERVICES, Cluster
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.cli.main import main
from trackside.errors import InvalidSpec
from trackside.placement.kubernetes import KubernetesPlacement
from trackside.records.journal import History
from trackside.records.layout import Home, JobKeys
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.sdk.estimator import PyTorch
from trackside.system import process_table

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("kubernetes")]

NAMES_ITS_POD = """
import json, os, socket
host = os.environ["SM_CURRENT_HOST"]
keys = ("OF_THE_POD", "ASKED_FOR", "TRACKSIDE_GROUP_FILE")
seen = {key: os.environ.get(key) for key in keys}
seen["others"] = [socket.gethostbyname(each) for each in json.loads(os.environ["SM_HOSTS"])]
with open(os.path.join(os.environ["SM_MODEL_DIR"], host), "w") as file:
    json.dump(seen, file)
print("trained")
"""
WAITS = """
import os, signal, sys, time
folder = os.environ["FOLDER"]
attempt = sum(each.startswith("began") for each in os.listdir(folder))
signal.signal(signal.SIGTERM, lambda *_: (open(f"{folder}/asked-{attempt}", "w"), sys.exit(0)))
open(f"{folder}/began-{attempt}", "w").close()
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.05)
"""
SERVER = """
from trackside.cli.main import main
from trackside.placement.kubernetes import KubernetesPlacement
KubernetesPlacement.is_this_machine = True  # as in the fixture `cluster`
main()
"""


class Submitter(Machine):
    bucket = ""

    def place(self, script: str, name: str, count: int = 1, **options: Any) -> Job:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(script)
            tar.addfile(info, io.BytesIO(script.encode()))
        keys = JobKeys(f"s3://{self.bucket}/out", name)
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
                "HyperParameters": {
                    "sagemaker_program": "train.py",
                    "sagemaker_submit_directory": keys.source,
                },
                "OutputDataConfig": {"S3OutputPath": keys.output},
                "ResourceConfig": {
                    "InstanceType": "local",
                    "InstanceCount": count,
                    "VolumeSizeInGB": 1,
                },
                "Environment": {"FOLDER": str(self.folder), "ASKED_FOR": "hush-4711"},
                "Trackside": {"Placement": "kubernetes:here", "GraceSeconds": 60, **options},
            }
        )
        self.jobs.submit(spec, source=[content.getvalue()])
        return Job(self, name)

    def looked(self, job: Job) -> History:
        self.jobs.reconcile(job.name)
        return job.history()


@pytest.fixture
def cluster(
    kubernetes: Cluster, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    for name, value in environment_for(s3_server.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    # All of it is on this machine, with its loopback address and the store there.
    monkeypatch.setattr(KubernetesPlacement, "is_this_machine", True)
    yield kubernetes
    kubernetes.free()


@pytest.fixture
def submitter(cluster: Cluster, bucket: str, tmp_path: Path) -> Submitter:
    machine = Submitter(tmp_path, dict(os.environ))
    machine.bucket = bucket
    return machine


def began(submitter: Submitter, attempt: int = 0) -> None:
    until((submitter.folder / f"began-{attempt}").exists)


def test_two_pods_train_one_model_and_secrets_are_in_the_secret_alone(
    submitter: Submitter, cluster: Cluster
):
    job = submitter.place(NAMES_ITS_POD, "two-hosts", count=2)
    kept = json.dumps([cluster.objects(each) for each in (JOBS, PODS, SERVICES)])
    assert "hush-4711" not in kept
    assert "test-secret-key" not in kept
    assert [*cluster.objects(SECRETS)] == [*cluster.objects(JOBS)]
    over = job.wait()
    assert over.state.status is Status.COMPLETED, over.failure_reason
    model = {name: json.loads(content) for name, content in job.model().items()}
    pods = [model[f"algo-{number}"]["OF_THE_POD"] for number in (1, 2)]
    assert [each.rpartition("-")[2] for each in pods] == ["0", "1"]
    for each in model.values():
        assert (each["ASKED_FOR"], each["TRACKSIDE_GROUP_FILE"]) == ("hush-4711", None)
        assert len({*each["others"]}) == 2
    [placed] = cluster.objects(JOBS)
    until(lambda: cluster.objects(JOBS)[placed]["status"].get("completedIndexes") == "0,1")
    submitter.jobs.delete("two-hosts")
    until(lambda: not any(map(cluster.objects, (JOBS, PODS, SECRETS, SERVICES))))


@pytest.mark.nightly
def test_what_the_script_does_is_the_cause_there_too(submitter: Submitter, cluster: Cluster):
    job = submitter.place("raise ValueError('no data')", "raises")
    over = job.wait()
    assert over.state.status is Status.FAILED
    assert over.death is not None
    assert over.death.cause == "code"
    assert "no data" in (over.failure_reason or "")


def test_a_pod_that_kubernetes_kills_for_lack_of_memory(submitter: Submitter, cluster: Cluster):
    job = submitter.place(WAITS, "too-large")
    began(submitter)
    cluster.kill(0, reason="OOMKilled")
    over = job.wait()
    assert over.state.status is Status.FAILED
    assert "OOMKilled" in (over.failure_reason or "")
    assert over.death is not None
    assert (over.death.cause, over.death.memory) == ("out_of_memory", "engine")


def test_an_image_that_cannot_be_had_fails_the_job(submitter: Submitter, cluster: Cluster):
    cluster.pull_error = f"rpc error: code = NotFound desc = {IMAGE}: not found"
    over = submitter.place(NAMES_ITS_POD, "no-image").wait()
    assert over.state.status is Status.FAILED
    assert "ErrImagePull" in (over.failure_reason or "")
    assert over.death is not None
    assert over.death.cause == "image"
    until(lambda: not any(map(cluster.objects, (JOBS, PODS, SECRETS, SERVICES))))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", "preempted"),
        pytest.param("DeletionByTaintManager", "node_lost", marks=pytest.mark.nightly),
    ],
)
def test_a_job_whose_pod_is_taken_goes_on_in_another(
    submitter: Submitter,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    cause: str,
):
    monkeypatch.setattr("trackside.jobs.reconcile_elsewhere.SILENT_SECONDS", 1.0)
    job = submitter.place(WAITS, "taken")
    began(submitter)
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    cluster.kill(0, {"conditions": [target]})
    until(lambda: submitter.looked(job).attempt == 2)
    [death] = job.history().earlier_deaths
    assert death.cause == cause
    began(submitter, 1)
    (submitter.folder / "go").touch()
    assert job.wait().state.status is Status.COMPLETED


@pytest.mark.nightly
def test_a_pod_that_is_asked_to_end_gives_the_script_its_grace(
    submitter: Submitter, cluster: Cluster
):
    job = submitter.place(WAITS, "drained")
    began(submitter)
    cluster.delete(0)
    until((submitter.folder / "asked-0").exists)
    until(lambda: submitter.looked(job).attempt == 2)
    assert [death.cause for death in job.history().earlier_deaths] == ["preempted"]
    began(submitter, 1)
    (submitter.folder / "go").touch()
    assert job.wait().state.status is Status.COMPLETED


@pytest.mark.nightly
def test_a_job_that_is_stopped_has_its_grace(submitter: Submitter, cluster: Cluster):
    job = submitter.place(WAITS, "stopped")
    began(submitter)
    submitter.jobs.stop("stopped")
    assert job.wait().state.status is Status.STOPPED
    assert (submitter.folder / "asked-0").exists()


@pytest.mark.nightly
def test_a_supervisor_that_is_killed_is_started_again(submitter: Submitter, cluster: Cluster):
    job = submitter.place(WAITS, "survives")
    began(submitter)
    name = cluster.pod(0).encode()
    supervisors = [
        pid
        for pid in process_table.pids()
        if b"trackside.supervisor" in process_table.read(f"/proc/{pid}/cmdline")
        and b"kubernetes_host" not in process_table.read(f"/proc/{pid}/cmdline")
        and name in process_table.read(f"/proc/{pid}/environ")
    ]
    os.kill(min(supervisors), signal.SIGKILL)
    (submitter.folder / "go").touch()
    over = job.wait()
    assert (over.state.status, over.attempt) == (Status.COMPLETED, 1)


def test_why_it_waits_is_its_status_message_and_a_stop_withdraws_it(
    submitter: Submitter, cluster: Cluster
):
    cluster.is_full = True
    job = submitter.place(NAMES_ITS_POD, "waits", count=2)
    said = "Waiting for kubernetes:here: 0/1 nodes are available: 1 Insufficient cpu."
    until(lambda: submitter.looked(job).message == said)
    cluster.server.is_away = True
    for _ in range(25):
        submitter.jobs.reconcile("waits")
    assert job.history().message == said
    assert job.history().state.secondary is Secondary.STARTING
    cluster.server.is_away = False
    submitter.jobs.stop("waits")
    assert job.history().state.status is Status.STOPPED
    until(lambda: not any(map(cluster.objects, (JOBS, PODS, SECRETS, SERVICES))))


@pytest.mark.nightly
def test_a_job_that_somebody_deletes_in_kubernetes_is_stopped(
    submitter: Submitter, cluster: Cluster
):
    job = submitter.place(WAITS, "deleted")
    began(submitter)
    for name in cluster.objects(JOBS):
        cluster.delete_job(name)
    assert job.wait().state.status is Status.STOPPED


@pytest.mark.nightly
def test_an_api_that_is_away_delays_the_start(submitter: Submitter, cluster: Cluster):
    cluster.server.is_away = True
    job = submitter.place(NAMES_ITS_POD, "late")
    message = job.history().message or ""
    assert message.startswith("Waiting for kubernetes:here: Kubernetes: the server is shutting")
    cluster.server.is_away = False
    assert job.wait().state.status is Status.COMPLETED


def test_an_image_and_a_program_are_needed(submitter: Submitter, tmp_path: Path):
    (tmp_path / "train.py").write_text("")
    given: dict[str, Any] = {
        "source_dir": str(tmp_path),
        "placement": "kubernetes",
        "output_path": f"s3://{submitter.bucket}/out",
    }
    with (
        pytest.warns(UserWarning, match="experimental"),
        pytest.raises(InvalidSpec, match="runs jobs in images"),
    ):
        PyTorch(entry_point="train.py", **given).fit()


def test_the_command_line_says_that_it_is_experimental(
    submitter: Submitter, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('in a pod')\n")
    words = ["run", "train.py", "--on", "kubernetes", "--image", IMAGE, "--wait", "--name", "typed"]
    words += ["--output", f"s3://{submitter.bucket}/out", "--kubernetes", "priority-class=low"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "Warning: kubernetes is experimental" in done.output
    assert "in a pod" in done.output
    [pod] = cluster.objects(PODS).values()
    assert pod["spec"]["priorityClassName"] == "low"
    offers = CliRunner().invoke(main, ["placements", "kubernetes"])
    assert "namespace team (experimental)" in offers.output
    wrong = CliRunner().invoke(main, ["run", "train.py", "--kubernetes", "queue=a"])
    assert "--kubernetes needs --on kubernetes." in wrong.output


@pytest.mark.nightly
def test_a_team_of_boto3_trains_there_through_a_server(
    kubernetes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path / "home"))
    key, secret = AccessKeys(Home(tmp_path / "home").server.root).create("team", Rights.ADMIN)
    with kept_port() as holder:
        url = f"http://127.0.0.1:{port_of(holder)}"
        words = ["server", "--on", "kubernetes", "--listen", url.split("//")[1], "--quiet"]
        with (tmp_path / "server.log").open("wb") as log:
            server = subprocess.Popen([sys.executable, "-c", SERVER, *words], stderr=log)
        try:
            described, model = trained(boto3.Session(key.id, secret, region_name="us-east-1"), url)
        finally:
            server.terminate()
            server.wait(60)
            kubernetes.free()
    assert described["TrainingJobStatus"] == "Completed", described.get("FailureReason")
    [host] = unpacked(model).values()
    assert json.loads(host)["OF_THE_POD"].endswith("-0")


def trained(session: boto3.Session, url: str) -> tuple[dict[str, Any], bytes]:
    """How a job of boto3's ended, and its model."""
    sagemaker, s3 = (session.client(name, endpoint_url=url) for name in ("sagemaker", "s3"))
    until(lambda: answers(s3))
    s3.create_bucket(Bucket="team")
    s3.put_object(Bucket="team", Key="code.tar.gz", Body=packed(NAMES_ITS_POD))
    code = {"sagemaker_submit_directory": "s3://team/code.tar.gz"}
    sagemaker.create_training_job(
        **request(
            "by-boto3",
            AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
            HyperParameters={"sagemaker_program": "train.py", **code},
            OutputDataConfig={"S3OutputPath": "s3://team/out"},
        )
    )
    described = ended(sagemaker, "by-boto3")
    found = s3.get_object(Bucket="team", Key="out/by-boto3/output/model.tar.gz")
    return described, found["Body"].read()


def answers(s3: Any) -> bool:
    try:
        return "Buckets" in s3.list_buckets()
    except EndpointConnectionError:
        return False
