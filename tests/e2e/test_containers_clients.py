"""AWS clients in a container: they reach this machine's server, or the job's log says why not."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.docker_engine import PYTHON, docker, docker_engine
from tests.e2e.conftest import Job, made_machine
from tests.e2e.test_containers import ContainerMachine, machine, torch_matches, with_torch
from tests.e2e.test_hosts import TWO
from tests.server_process import TRACKSIDE, ServerProcess
from tests.tcp_proxy import TcpProxy
from tests.wait import until
from trackside.records.status import Status

__all__ = ["machine", "torch_matches"]
pytestmark = pytest.mark.timeout(600)

USES_S3 = """
import os, time, boto3
from botocore.exceptions import ConnectionError
host = os.environ["SM_CURRENT_HOST"]
client = boto3.client("s3")
print("ENDPOINT", os.environ["AWS_ENDPOINT_URL"], flush=True)
while True:
    try:
        client.put_object(Bucket="trackside", Key=host, Body=b"of the script")
        break
    except ConnectionError:
        time.sleep(0.1)
"""


def test_a_server_of_this_machine_is_reached_by_a_name(
    machine: ContainerMachine,
    torch_matches: None,
    tmp_path: Path,
) -> None:
    """A proxy stands for a server that listens at the address that containers reach."""
    with ServerProcess(tmp_path / "server") as server:
        given = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": server.key.id,
            "AWS_SECRET_ACCESS_KEY": server.secret,
        }
        (tmp_path / "server" / "buckets" / "trackside").mkdir(parents=True)
        named = {"TRACKSIDE_JOB_VARIABLES": ",".join(given), "TRACKSIDE_S3": "embedded"}
        (tmp_path / "other").mkdir()
        there = ContainerMachine(tmp_path / "other", {**os.environ, **given, **named})
        job = there.submit(USES_S3, name="client", ResourceConfig=TWO, **with_torch())
        job.wait_for_line("ENDPOINT")
        assert job.said("ENDPOINT") == f"http://host.docker.internal:{server.port}"
        with TcpProxy(server.port, (gateway(job), server.port)):
            assert job.wait().state.status is Status.COMPLETED, job.log()
        for host in ("algo-1", "algo-2"):
            stored = tmp_path / "server" / "buckets" / "trackside" / host
            assert stored.read_bytes() == b"of the script"


def gateway(job: Job) -> str:
    """This machine's address on the network of a job."""
    [facts, *_] = job.folder.hosts.glob("*/1/sandbox/container.json")
    network = json.loads(facts.read_text())["network"]
    return docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", network)


def test_a_server_that_is_not_reached_is_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests' engine has no network for a single host."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine())
    (tmp_path / "train.py").write_text(
        "import os; print('KEY', os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_ENDPOINT_URL'])"
    )
    home = tmp_path / "home"
    with ServerProcess(home, TRACKSIDE_SANDBOX="docker") as server:
        environ = {**os.environ, **server.environment()}
        run = [*TRACKSIDE, "run", "train.py", "--image", PYTHON, "--name", "told", "--wait"]
        done = subprocess.run(run, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        with made_machine(tmp_path, TRACKSIDE_HOME=str(home)) as there:
            job = Job(there, "told")
            until(lambda: job.history().state.is_final)
            first, *_ = job.log().splitlines()
    assert first.startswith(
        f"[trackside] AWS clients in this container do not reach {server.url}: "
        "the engine gives it no network."
    )
    assert job.said("KEY") == f"TSJOB-told {server.url}"
