"""Jobs on a real Slurm cluster of three nodes that share nothing but an S3 server."""

import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.api.training import ended, request
from tests.apptainer_program import PYTHON as IMAGE_FILE
from tests.apptainer_program import apptainer_program
from tests.docker_engine import PYTHON, engine_on, podman_on
from tests.e2e.conftest import unpacked
from tests.e2e.test_machines import TRAIN, WAITS, machine_processes, packed
from tests.machines import Machine, entered
from tests.slurm_cluster import SlurmCluster
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.errors import InvalidSpec, JobFailed, JobNotFound
from trackside.jobs.jobs import Jobs
from trackside.placement.placement import PlacementAway
from trackside.placement.slurm import SlurmPlacement
from trackside.records.death import Cause, Death
from trackside.records.journal import History
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.sdk.estimator import PyTorch
from trackside.settings import Settings

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("slurm")]

NAME = "slurm:user@head"
NAMES_ITS_NODE = """
import shutil
shutil.copy("/tmp/name", "/opt/ml/model/node")
print("trained", flush=True)
"""

CONTAINER = """
import os, socket, time
me = os.environ["SM_CURRENT_HOST"]
where = "of the machine" if os.path.exists("/tmp/name") else "of the image"

def connected():
    if me == "algo-1":
        return socket.create_server(("", 7010)).accept()[0]
    while True:
        try:
            return socket.create_connection((os.environ["MASTER_ADDR"], 7010))
        except OSError:
            time.sleep(0.1)

other = connected()
other.sendall(me.encode())
with open(f"/opt/ml/model/{me}", "w") as file:
    file.write(f"{other.recv(100).decode()} {where}")
"""


class Submitter:
    """A machine beside the cluster, which reaches its login node by a command in ssh's place."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.bucket = cluster.network.make_bucket()
        self.jobs = Jobs(Settings.load(), dict(os.environ))

    def submit(
        self, script: str, name: str, *, hosts: int = 2, options: Any = None, **request: Any
    ) -> None:
        output = f"s3://{self.bucket}/out"
        own = {"Placement": NAME, "PlacementOptions": options or {}, "GraceSeconds": 20}
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "HyperParameters": {
                    "sagemaker_program": "train.py",
                    "sagemaker_submit_directory": f"{output}/{name}/source/sourcedir.tar.gz",
                },
                "OutputDataConfig": {"S3OutputPath": output},
                "ResourceConfig": {"InstanceCount": hosts, "InstanceType": "local"},
                "Trackside": own,
                **request,
            }
        )
        self.jobs.submit(spec, source=[packed(script)])

    def release(self) -> None:
        for node in self.cluster.nodes:
            (node.disk / "go").touch()

    def log(self, name: str) -> str:
        self.jobs.reconcile(name)
        try:
            return b"".join(line.data for line in self.jobs.logs(name)).decode()
        except JobNotFound:
            return ""

    def wait_for(self, text: str, count: int, name: str) -> None:
        until(lambda: self.log(name).count(text) >= count, seconds=240)

    def wait(self, name: str) -> History:
        return self.jobs.wait(name, timeout_seconds=300)

    def model(self, name: str) -> dict[str, bytes]:
        key = f"out/{name}/output/model.tar.gz"
        found = self.cluster.network.client.get_object(Bucket=self.bucket, Key=key)
        return unpacked(found["Body"].read())

    def message(self, name: str) -> str:
        self.jobs.reconcile(name)
        return self.jobs.record(name).history.message or ""

    def death(self, name: str) -> Death | None:
        return self.jobs.record(name).history.death

    def attempt(self, name: str) -> int:
        return int(self.jobs.describe(name)["Trackside"]["attempt"])


@pytest.fixture
def submitter(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Submitter]:
    cluster = slurm
    for node in cluster.nodes:
        (node.disk / "name").write_text(node.name)
        for left in ("go", "asked"):
            (node.disk / left).unlink(missing_ok=True)
    environ = cluster.head.environment(cluster.variables)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    assigned = [f"{name}={value}" for name, value in environ.items() if name != "AWS_REGION"]
    ssh = tmp_path / "ssh"
    enter = " ".join(entered(cluster.head.pid))
    words = " ".join(f"'{each}'" for each in assigned)
    ssh.write_text(f'#!/bin/sh\nshift\nexec {enter} env -i {words} sh -c "$1"\n')
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TRACKSIDE_SSH_COMMAND", f"'{ssh}'")
    monkeypatch.setenv("TRACKSIDE_LEASE", "20")
    monkeypatch.setenv("TRACKSIDE_HEARTBEAT", "1")
    for name, value in cluster.network.variables.items():
        monkeypatch.setenv(name, value)
    yield Submitter(cluster)
    cluster.free()


def test_two_nodes_train_over_the_network_and_nothing_is_left(submitter: Submitter):
    submitter.submit(TRAIN, "trains")
    submitter.wait_for("sum 3.0", 2, "trains")
    assert submitter.jobs.describe("trains")["SecondaryStatus"] == "Training"
    submitter.release()
    assert submitter.wait("trains").state.status is Status.COMPLETED
    assert submitter.model("trains") == {"algo-1": b"3.0", "algo-2": b"3.0"}
    until(lambda: not submitter.cluster.said("squeue", "-h"))
    for node in submitter.cluster.nodes:
        until(partial(is_free, node))


def is_free(node: Machine) -> bool:
    return not machine_processes(node) and not [*node.disk.glob("trackside-0/*")]


def test_why_it_waits_is_said_in_slurms_words_and_a_stop_withdraws_it(submitter: Submitter):
    submitter.submit(WAITS, "first", hosts=3, Trackside=needs(cores=4))
    submitter.wait_for("begun", 3, "first")
    submitter.submit(WAITS, "second", Trackside=needs(cores=4))
    until(lambda: "Waiting for slurm" in submitter.message("second"))
    until(lambda: submitter.message("second").split(": ")[1] in ("Resources", "Priority"))
    submitter.jobs.stop("second")
    assert submitter.wait("second").state.secondary is Secondary.STOPPED
    assert "second" not in submitter.cluster.said("squeue", "-h", "-o", "%j")
    submitter.release()
    assert submitter.wait("first").state.status is Status.COMPLETED


def needs(**options: Any) -> dict[str, Any]:
    names = {"cores": "Cores", "options": "PlacementOptions"}
    asked = {names[name]: value for name, value in options.items()}
    return {"Placement": NAME, "GraceSeconds": 20, **asked}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"options": {"partition": "nosuch"}}, "invalid partition specified: nosuch"),
        ({"hosts": 9}, "9 hosts are asked for.* 'main' has 3 such machines of 3"),
        ({"Trackside": needs(cores=64)}, "with 64 cores.* 0 such machines of 3: 3 with 4 cores"),
        (
            {"ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.p4d.24xlarge"}},
            "1 host is asked for, with 96 cores, 1037 GB, 8 GPUs; .* 3 with 4 cores, .*, 2 GPUs",
        ),
    ],
)
def test_what_slurm_can_never_give_fails_at_once(
    submitter: Submitter, request_: dict[str, Any], words: str
):
    with pytest.raises(JobFailed, match=words):
        submitter.submit(WAITS, "never", **request_)
    assert submitter.death("never") == Death(cause=Cause.REQUEST)


def test_options_that_are_not_the_jobs_are_refused(submitter: Submitter):
    with pytest.raises(InvalidSpec, match=r"PlacementOptions.uid.*jobs run as who submits them"):
        submitter.submit(WAITS, "other", options={"uid": "0"})


def test_a_supervisor_that_is_killed_goes_on(submitter: Submitter):
    submitter.submit(WAITS, "killed")
    submitter.wait_for("begun", 2, "killed")
    for node in submitter.cluster.nodes:
        node.run("pkill", "-KILL", "-f", "trackside.supervisor --group")
    submitter.release()
    assert submitter.wait("killed").state.status is Status.COMPLETED
    assert submitter.attempt("killed") == 1
    assert submitter.log("killed").count("begun") == 2


@pytest.mark.nightly
def test_a_controller_that_is_away_changes_nothing(submitter: Submitter):
    submitter.submit(WAITS, "alone")
    submitter.wait_for("begun", 2, "alone")
    cluster = submitter.cluster
    for process in controllers(cluster):
        os.kill(process, signal.SIGKILL)
    for _ in range(3):
        submitter.jobs.reconcile("alone")
    submitter.release()
    until(lambda: "done" in submitter.log("alone"), seconds=120)
    cluster.start_controller()
    assert submitter.wait("alone").state.status is Status.COMPLETED
    assert submitter.attempt("alone") == 1


def controllers(cluster: SlurmCluster) -> list[int]:
    """As this machine numbers them."""
    head = os.readlink(f"/proc/{cluster.head.pid}/ns/pid")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_there = os.readlink(process / "ns" / "pid") == head
            if is_there and (process / "comm").read_text().strip() == "slurmctld":
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_what_the_script_does_is_the_cause_there_too(submitter: Submitter):
    raises = WAITS.replace("done", "raised") + "\nraise ValueError('a pumpkin')"
    submitter.submit(raises, "raises", hosts=1)
    submitter.release()
    assert "a pumpkin" in (submitter.wait("raises").failure_reason or "")
    assert submitter.death("raises") == Death(cause=Cause.CODE, host="algo-1")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("import os; os.kill(os.getpid(), 9)", Cause.SIGNAL),
        ("raise OSError(28, 'No space left on device', '/opt/ml/model/m')", Cause.DISK),
    ],
)
def test_how_a_script_dies_on_a_node(submitter: Submitter, how: str, cause: Cause):
    submitter.submit(how, f"dies-{cause}", hosts=1)
    assert submitter.wait(f"dies-{cause}").state.status is Status.FAILED
    assert submitter.death(f"dies-{cause}") == Death(cause=cause, host="algo-1")


def test_scancel_stops_the_job_and_what_it_saved_is_kept(submitter: Submitter):
    submitter.submit(WAITS, "cancelled", hosts=1)
    submitter.wait_for("begun", 1, "cancelled")
    submitter.cluster.said("scancel", "--name=cancelled")
    assert submitter.wait("cancelled").state.secondary is Secondary.STOPPED
    assert submitter.death("cancelled") is None
    assert "asked to stop" in submitter.log("cancelled")


def test_the_end_of_its_time_is_the_end_of_the_job(submitter: Submitter):
    submitter.submit(WAITS, "limited", options={"time": "1"})
    ended = submitter.wait("limited")
    assert ended.state.secondary is Secondary.MAX_RUNTIME_EXCEEDED
    assert submitter.death("limited") == Death(cause=Cause.TIME_LIMIT)
    if submitter.log("limited").count("begun") == 2:  # Slurm's notice may come before that
        assert submitter.model("limited") == {"algo-1": b"weights", "algo-2": b"weights"}


@pytest.mark.nightly
def test_a_job_whose_nodes_are_taken_goes_on_when_it_has_others(submitter: Submitter):
    submitter.submit(WAITS, "preempted", Trackside=needs(cores=4))
    submitter.wait_for("begun", 2, "preempted")
    urgent = ("--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null")
    submitter.cluster.said("sbatch", *urgent, "--wrap", "sleep 15")
    until(lambda: submitter.attempt("preempted") == 2, seconds=240)
    submitter.release()
    history = submitter.wait("preempted")
    assert history.state.status is Status.COMPLETED
    assert [each.cause for each in history.earlier_deaths] == [Cause.PREEMPTED], history
    assert "asked to stop" in submitter.log("preempted")


@pytest.mark.nightly
def test_a_node_that_dies_is_replaced_with_its_group(submitter: Submitter):
    submitter.submit(WAITS, "lost", RetryStrategy={"MaximumRetryAttempts": 2})
    submitter.wait_for("begun", 2, "lost")
    cluster = submitter.cluster
    [lead] = [line for line in submitter.log("lost").splitlines() if "begun on" in line][:1]
    name = lead.split()[-1]
    cluster.network[name].kill()
    try:
        until(lambda: submitter.attempt("lost") >= 2, seconds=240)
        submitter.release()
        history = submitter.wait("lost")
        assert history.state.status is Status.COMPLETED
        assert {each.cause for each in history.earlier_deaths} == {Cause.NODE_LOST}
    finally:
        cluster.boot(name)
        until(lambda: set(cluster.states().values()) == {"idle"}, seconds=120)
    assert submitter.model("lost") == {"algo-1": b"weights", "algo-2": b"weights"}


def test_what_there_is(submitter: Submitter):
    offers = SlurmPlacement("user@head").offers()
    assert [line.split(";")[0] for line in offers] == [
        "partition main*: 3 of 3 nodes free, each 4 cores, 15 GB, gpu:2",
        "partition urgent: 3 of 3 nodes free, each 4 cores, 15 GB, gpu:2",
    ]


def test_the_command_line_runs_on_the_cluster_whose_login_node_it_is_on(submitter: Submitter):
    head = submitter.cluster.head
    (head.disk / "train.py").write_text('print("on", open("/tmp/name").read())\n')
    words = ["run", "train.py", "--on", "slurm", "--partition", "main", "--slurm", "--nice=5"]
    output = f"s3://{submitter.bucket}/out"
    done = head.run(
        "python",
        *("-m", "trackside.cli", *words, "--output", output, "--name", "typed", "--wait"),
        variables=submitter.cluster.variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on n" in done.stdout
    listed = head.run(
        "python", "-m", "trackside.cli", "jobs", "--json", variables=submitter.cluster.variables
    )
    [row] = json.loads(listed.stdout)
    assert row["status"] == "Completed"


def test_a_team_of_boto3_trains_there_through_a_server_on_the_login_node(submitter: Submitter):
    head = submitter.cluster.head
    key, secret = AccessKeys(head.home.server.root).create("team", Rights.ADMIN)
    url = f"http://{head.address}:7008"
    words = ("-m", "trackside.cli", "server", "--on", "slurm", "--listen", url.split("//")[1])
    small = {"TRACKSIDE_CAPACITY": "cores=1,memory_gb=1", "TRACKSIDE_ENFORCE": "types"}
    variables = {**submitter.cluster.variables, **small}
    with (head.disk / "server.log").open("wb") as log:
        server = head.start("python", *words, variables=variables, output=log)
    session = boto3.Session(key.id, secret, region_name="us-east-1")
    sagemaker, s3 = (session.client(name, endpoint_url=url) for name in ("sagemaker", "s3"))
    until(lambda: b"Listening" in (head.disk / "server.log").read_bytes())
    try:
        s3.create_bucket(Bucket="team")
        s3.put_object(Bucket="team", Key="code.tar.gz", Body=packed(NAMES_ITS_NODE))
        code = {"sagemaker_submit_directory": "s3://team/code.tar.gz"}
        asked = request(
            "by-boto3",
            HyperParameters={"sagemaker_program": "train.py", **code},
            OutputDataConfig={"S3OutputPath": "s3://team/out"},
            ResourceConfig={
                "InstanceType": "ml.g4dn.xlarge",  # 4 cores, 16 GB, a GPU
                "InstanceCount": 1,
                "VolumeSizeInGB": 1,
            },
        )
        sagemaker.create_training_job(**asked)
        described = ended(sagemaker, "by-boto3")
        assert described["TrainingJobStatus"] == "Completed", described["FailureReason"]
        said = submitter.cluster.said("squeue", "-h", "-t", "all", "-n", "by-boto3", "-o", "%C %b")
        assert said.split() == ["4", "gres:gpu:1"], "the login node's own size limits nothing"
        model = s3.get_object(Bucket="team", Key="out/by-boto3/output/model.tar.gz")
        assert unpacked(model["Body"].read())["node"] in {b"n1", b"n2", b"n3"}
    finally:
        head.run("pkill", "-TERM", "-f", "trackside.cli server")
        server.wait(60)


def test_the_sdk_runs_there(submitter: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    submitter.cluster.log_in(tmp_path / "bin", monkeypatch)
    (tmp_path / "train.py").write_text(NAMES_ITS_NODE)
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=str(tmp_path),
        placement="slurm",
        placement_options={"partition": "urgent"},
        output_path=f"s3://{submitter.bucket}/out",
    )
    estimator.fit(job_name="by-sdk", wait=True)
    assert submitter.model("by-sdk")["node"] in {b"n1", b"n2", b"n3"}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "engine"), [("docker", engine_on), ("podman", podman_on)])
def test_an_image_is_run_by_the_engine_of_each_node(
    submitter: Submitter, name: str, engine: Callable[..., AbstractContextManager[str]]
):
    first, second, _ = submitter.cluster.nodes
    with engine(first, PYTHON) as address, engine(second, PYTHON):
        options = {"nodelist": "n1,n2", "prolog": f"export DOCKER_HOST={address}"}
        submitter.submit(
            CONTAINER,
            name,
            AlgorithmSpecification={"TrainingImage": PYTHON, "TrainingInputMode": "File"},
            Trackside={**needs(options=options), "Sandbox": "docker"},
        )
        over = submitter.wait(name)
        assert over.state.status is Status.COMPLETED, over.failure_reason
        assert submitter.model(name) == {
            "algo-1": b"algo-2 of the image",
            "algo-2": b"algo-1 of the image",
        }


def test_an_image_is_run_by_the_apptainer_of_each_node(submitter: Submitter):
    program = Path(apptainer_program())
    submitter.submit(
        CONTAINER,
        "in-a-file",
        AlgorithmSpecification={"TrainingImage": str(IMAGE_FILE), "TrainingInputMode": "File"},
        Trackside={
            **needs(options={"prolog": f"export PATH={program.parent}:$PATH"}),
            "Sandbox": "docker",
        },
    )
    over = submitter.wait("in-a-file")
    assert over.state.status is Status.COMPLETED, over.failure_reason
    assert submitter.model("in-a-file") == {
        "algo-1": b"algo-2 of the image",
        "algo-2": b"algo-1 of the image",
    }


def test_containers_of_several_machines_have_no_isolated_network(submitter: Submitter):
    with pytest.raises(InvalidSpec, match="cannot be had by containers on several machines"):
        submitter.submit(
            CONTAINER,
            "isolated",
            EnableNetworkIsolation=True,
            AlgorithmSpecification={"TrainingImage": "any", "TrainingInputMode": "File"},
            Trackside={**needs(), "Sandbox": "docker"},
        )


def test_a_cluster_is_reached_by_ssh(
    submitter: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with submitter.cluster.sshd(tmp_path / "login") as config:
        monkeypatch.setenv("TRACKSIDE_SSH_COMMAND", f"ssh -F '{config}'")
        prolog = f"source '{sys.prefix}/bin/activate'"
        own = {**needs(options={"prolog": prolog}), "Placement": "slurm:root@head"}
        submitter.submit(NAMES_ITS_NODE, "over-ssh", hosts=1, Trackside=own)
        assert submitter.wait("over-ssh").state.status is Status.COMPLETED
        assert submitter.model("over-ssh")["node"] in {b"n1", b"n2", b"n3"}
    with pytest.raises(PlacementAway, match="root@head cannot be reached: .*Connection refused"):
        SlurmPlacement("root@head").offers()
