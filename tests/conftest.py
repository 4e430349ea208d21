"""What every test gets: an environment of its own, and on request a real S3 server or Postgres."""

import os
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from hypothesis import HealthCheck, settings

from tests.fault_proxy import FaultProxy
from tests.postgres_server import PostgresServer, postgres_server
from tests.ray_cluster import RayCluster, ray_cluster
from tests.slurm_cluster import SlurmCluster, slurm_cluster
from tests.wait import until
from trackside.jobs import postgres_index

if TYPE_CHECKING:
    from tests.kubernetes_cluster import Cluster

OURS = ("AWS_", "S3_", "TRACKSIDE_", "SM_", "SAGEMAKER_", "GOOGLE_", "AZURE_")
KEPT = {"TRACKSIDE_REQUIRE"}

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# `nohup make test &`, and some runners of CI, have SIGINT ignored, which every child would inherit.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a pytest that xdist does not know, each worker would start clusters of its own."""
    if getattr(config.option, "loadgroup", False):
        for item in items:
            group = item.get_closest_marker("xdist_group")
            if group is not None and not item.nodeid.endswith(f"@{group.args[0]}"):
                raise RuntimeError(
                    f"xdist does not group {item.nodeid}: see pytest in pyproject.toml"
                )


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests leaks in, and none of theirs is written to."""
    for name in list(os.environ):
        if name.startswith(OURS) and name not in KEPT:
            monkeypatch.delenv(name)
    home = tmp_path / "user's home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path / "trackside home"))


@pytest.fixture(autouse=True)
def no_capture_left() -> Iterator[None]:
    """A hook that a test leaves open has patched torch, and a thread of it reads /proc."""
    yield
    if "trackside.capture.hook" in sys.modules:
        from trackside.capture import current_hook
        from trackside.capture.hangs.watch import stop_watch

        replaced = [flush.__self__ for _, flush in current_hook._writing.values()]  # type: ignore[attr-defined]
        for hook in {*replaced, current_hook.current_hook()} - {None}:
            hook.close()
        current_hook.del_hook()
        stop_watch()


@dataclass(frozen=True)
class S3Server:
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead S3 clients, ours too, to this server."""
        return environment_for(self.url)

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test-access-key",
            aws_secret_access_key="test-secret-key",
        )

    def make_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


def environment_for(url: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "test-access-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret-key",
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """moto's S3 in a process of its own, one per test process."""
    code = (
        "import logging, sys; logging.disable(logging.CRITICAL)\n"
        "from moto.server import ThreadedMotoServer\n"
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False); server.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\n"
        "sys.stdin.read()"  # ends with us, however we end
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"MOTO_S3_DEFAULT_MAX_KEYS": "10"},  # so that listings have pages
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "moto's server ended before it listened"
        url = f"http://127.0.0.1:{port}"
        until(lambda: _answers(f"{url}/moto-api/data.json"))
        yield S3Server(url)
        process.kill()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.make_bucket()


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultProxy]:
    """The S3 server, behind a proxy that a test can make misbehave."""
    with FaultProxy(s3_server.url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresServer]:
    """One per test process, which every test leaves running."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[RayCluster]:
    """For tests of the group "ray" of xdist; each leaves two nodes that are free."""
    with ray_cluster("n1", head_cores=4) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """For tests of the group "slurm" of xdist; each leaves three nodes that are free."""
    with slurm_cluster("n1", "n2", "n3") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """For tests of the group "kubernetes" of xdist; each leaves it by `free`."""
    if os.geteuid() != 0:
        pytest.skip("pods of the stand-in for a cluster are namespaces, which need root")
    from tests.kubernetes_cluster import kubernetes_cluster  # an HTTP server

    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture
def patient_with_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is slow is not gone, for those who ask from this process."""
    monkeypatch.setattr(postgres_index, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(postgres_index, "CONNECT_SECONDS", 60)


@pytest.fixture
def database(shared_postgres: PostgresServer, patient_with_databases: None) -> str:
    """Where an empty database is."""
    shared_postgres.empty()
    return shared_postgres.url


@pytest.fixture(scope="module")
def mortal_postgres() -> Iterator[PostgresServer]:
    """One that a module's tests may end and start again."""
    with postgres_server() as server:
        yield server


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=60):
        return True
