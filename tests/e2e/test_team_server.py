"""A team's servers as processes, on a real Postgres that comes and goes and a real object store."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.api.training import request
from tests.conftest import S3Server
from tests.postgres_server import PASSWORD, PostgresServer
from tests.tcp_proxy import TcpProxy
from tests.wait import until
from trackside.jobs.postgres_index import ANSWER_SECONDS

TRACKSIDE = [sys.executable, "-m", "trackside.cli"]
TRAIN = """
import os, time
print("begun", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.05)
open("/opt/ml/model/weights", "w").write("w")
print("done", flush=True)
"""


@dataclass
class TeamServer:
    process: subprocess.Popen[str]
    environment: dict[str, str]
    log: Path
    url: str

    def client(self, service: str = "sagemaker", attempts: int = 50) -> Any:
        """One that asks again while the database is slow, unless it is to be told at once."""
        shown = subprocess.run(
            [*TRACKSIDE, "env"], env=self.environment, capture_output=True, text=True, check=True
        )
        lines = [line.removeprefix("export ") for line in shown.stdout.splitlines()]
        exports = {name: text.strip("'") for name, _, text in (x.partition("=") for x in lines)}
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="eu-central-1",
            aws_access_key_id=exports["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=exports["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}),
        )


Serve = Callable[..., TeamServer]


@pytest.fixture
def serve(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[Serve]:
    """Starts a server with a home of this name."""
    with ExitStack() as servers:

        def start(name: str, url: str) -> TeamServer:
            environment = {
                **os.environ,
                **s3_server.environment,
                "TRACKSIDE_HOME": str(tmp_path / name),
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            }
            log = tmp_path / f"{name}.log"
            process = servers.enter_context(
                subprocess.Popen(
                    [
                        *(*TRACKSIDE, "server", "--listen", "127.0.0.1:0"),
                        *("--database", url, "--storage", f"s3://{bucket}/team"),
                    ],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=servers.enter_context(log.open("w")),
                    text=True,
                )
            )
            servers.callback(process.kill)
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            return TeamServer(process, environment, log, address)

        yield start


@pytest.fixture
def mortal(mortal_postgres: PostgresServer) -> Iterator[PostgresServer]:
    yield mortal_postgres
    if not mortal_postgres.is_running():
        mortal_postgres.start()


@pytest.fixture
def job(tmp_path: Path, s3_server: S3Server, bucket: str) -> Callable[[str], Any]:
    """A request for a job that goes on until `go` exists."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(TRAIN)
        archive.addfile(member, io.BytesIO(TRAIN.encode()))
    s3_server.client().put_object(Bucket=bucket, Key="code.tar.gz", Body=packed.getvalue())

    def make(name: str = "job-1") -> Any:
        code = json.dumps(f"s3://{bucket}/code.tar.gz")
        return request(
            name,
            hyper={"sagemaker_program": '"train.py"', "sagemaker_submit_directory": code},
            OutputDataConfig={"S3OutputPath": f"s3://{bucket}/team"},
            Environment={"GO": str(tmp_path / "go")},
        )

    return make


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "go"
    (tmp_path / "go").touch()


def status(client: Any, name: str = "job-1") -> str:
    return client.describe_training_job(TrainingJobName=name)["SecondaryStatus"]


def listed(client: Any) -> dict[str, str]:
    try:
        rows = client.list_training_jobs()["TrainingJobSummaries"]
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "ServiceUnavailable":
            raise
        return {}
    return {row["TrainingJobName"]: row["TrainingJobStatus"] for row in rows}


def is_unavailable(call: Callable[..., Any], **given: Any) -> bool:
    with pytest.raises(ClientError) as caught:
        call(**given)
    reported = caught.value.response
    assert reported["Error"]["Code"] == "ServiceUnavailable"
    assert reported["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert int(reported["ResponseMetadata"]["HTTPHeaders"]["retry-after"]) > 0
    assert PASSWORD not in str(reported)
    return True


def test_a_database_that_goes_in_the_middle_of_a_job_and_of_a_create(
    serve: Serve, mortal: PostgresServer, job, go: Path
):
    server = serve("home", mortal.url_of(mortal.make_database()))
    client, hurried = server.client(), server.client(attempts=1)
    client.create_training_job(**job())
    until(lambda: status(client) == "Training", seconds=120)
    mortal.kill()
    assert is_unavailable(hurried.list_training_jobs)
    assert is_unavailable(hurried.create_training_job, **job("job-2"))
    assert status(hurried) == "Training"
    logs = server.client("logs")
    group = "/aws/sagemaker/TrainingJobs"
    [stream] = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix="job-1/")[
        "logStreams"
    ]
    name = stream["logStreamName"]

    def lines() -> list[str]:
        events = logs.get_log_events(logGroupName=group, logStreamName=name)["events"]
        return [event["message"] for event in events]

    until(lambda: "begun" in lines())
    with ThreadPoolExecutor(1) as thread:
        created = thread.submit(client.create_training_job, **job("job-2"))
        go.touch()
        until(lambda: status(hurried) == "Completed", seconds=120)
        assert not created.done()
        mortal.start()
        assert created.result(120)["TrainingJobArn"].endswith("/job-2")
    until(lambda: listed(client).get("job-1") == "Completed")
    until(lambda: listed(client).get("job-2") == "Completed", seconds=120)
    log = server.log.read_text()
    assert "answers again" in log
    assert "Traceback" not in log
    assert PASSWORD not in log


def test_two_servers_share_names_listings_and_the_word_to_stop(
    serve: Serve, database: str, job, go: Path
):
    first, second = serve("first", database), serve("second", database)
    here, there = first.client(), second.client()
    here.create_training_job(**job())
    elsewhere = {"S3OutputPath": job()["OutputDataConfig"]["S3OutputPath"] + "/elsewhere"}
    with pytest.raises(ClientError, match="already exists") as caught:
        there.create_training_job(**{**job(), "OutputDataConfig": elsewhere})
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"
    until(lambda: status(here) == "Training", seconds=120)
    until(lambda: status(there) == "Training")
    assert listed(there) == {"job-1": "InProgress"}
    reported = there.describe_training_job(TrainingJobName="job-1")
    assert reported["Environment"] == {"GO": str(go)}
    assert [each["Status"] for each in reported["SecondaryStatusTransitions"]][-1] == "Training"
    there.stop_training_job(TrainingJobName="job-1")
    until(lambda: status(here) == "Stopped", seconds=120)
    until(lambda: listed(there) == {"job-1": "Stopped"})
    assert there.describe_training_job(TrainingJobName="job-1")["TrainingJobStatus"] == "Stopped"


def test_a_half_dead_connection_holds_up_nobody_who_does_not_need_it(
    serve: Serve, shared_postgres: PostgresServer, job, go: Path
):
    with TcpProxy(shared_postgres.port) as proxy:
        shared_postgres.empty()
        server = serve("home", shared_postgres.url_of("postgres", port=proxy.port))
        client, hurried = server.client(), server.client(attempts=1)
        client.create_training_job(**job())
        proxy.hang()
        with ThreadPoolExecutor(12) as threads:
            refusals = [
                threads.submit(is_unavailable, hurried.list_training_jobs) for _ in range(12)
            ]
            assert all(refusal.result(120) for refusal in refusals)
        began = time.monotonic()
        for _ in range(20):
            assert status(hurried)
        assert time.monotonic() - began < 15 * ANSWER_SECONDS  # had twenty waited for it
        proxy.resume()
        until(lambda: "job-1" in listed(client))


def test_a_server_killed_and_started_again_finds_its_jobs(
    serve: Serve, database: str, job, go: Path
):
    server = serve("home", database)
    server.client().create_training_job(**job())
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    go.touch()
    client = serve("home", database).client()
    assert set(listed(client)) == {"job-1"}
    until(lambda: listed(client) == {"job-1": "Completed"}, seconds=120)


def test_a_server_that_starts_before_its_database_waits_for_it(
    serve: Serve, mortal: PostgresServer, tmp_path: Path
):
    url = mortal.url_of(mortal.make_database())
    mortal.kill()
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(serve, "home", url)
        log = tmp_path / "home.log"
        until(lambda: log.exists() and "waiting for the database" in log.read_text())
        assert f"127.0.0.1:{mortal.port}" in log.read_text()
        assert PASSWORD not in log.read_text()
        mortal.start()
        assert listed(started.result(120).client()) == {}


def start_badly(tmp_path: Path, *options: str, **changed: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TRACKSIDE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **changed,
    }
    command = [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


def test_a_wrong_password_ends_the_start_with_the_host_and_without_the_password(
    shared_postgres: PostgresServer, tmp_path: Path
):
    done = start_badly(
        tmp_path, TRACKSIDE_DATABASE=shared_postgres.url_of("postgres", password="wrong-4711")
    )
    assert done.returncode == 3
    assert f"127.0.0.1:{shared_postgres.port}" in done.stderr
    assert "password authentication failed" in done.stderr
    assert "4711" not in done.stderr


@pytest.mark.parametrize(
    ("options", "changed", "words"),
    [
        (["--database", "mysql://a:secret-1@b/c"], {}, "postgresql://USER:PASSWORD@HOST"),
        (["--storage", "/mnt/disk"], {}, "is not an object store"),
        (["--storage", "s3://bucket"], {"TRACKSIDE_S3": "embedded"}, "exclude each other"),
    ],
)
def test_settings_that_contradict_end_the_start(
    tmp_path: Path, options: list[str], changed: dict[str, str], words: str
):
    done = start_badly(tmp_path, *options, **changed)
    assert done.returncode == 2
    assert words in done.stderr
    assert "secret-1" not in done.stderr


def test_a_bucket_that_does_not_exist_ends_the_start(tmp_path: Path, s3_server: S3Server):
    done = start_badly(tmp_path, "--storage", "s3://no-such-bucket-4", **s3_server.environment)
    assert done.returncode == 2
    assert "'s3://no-such-bucket-4' cannot be used" in done.stderr


@pytest.mark.parametrize("through", ["its server", "the database"])
def test_a_log_is_followed_from_another_machine_of_the_team(
    serve: Serve, database: str, job, go: Path, through: str
):
    first, second = serve("first", database), serve("second", database)
    first.client().create_training_job(**job())
    settings = {"TRACKSIDE_URL": second.url}
    if through == "the database":
        settings = {"TRACKSIDE_URL": "embedded", "TRACKSIDE_DATABASE": database}
    there = second.client()
    until(lambda: status(there) == "Training", seconds=120)
    follower = subprocess.Popen(
        [*TRACKSIDE, "logs", "--follow", "job-1"],
        env={**second.environment, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert follower.stdout is not None
        assert "begun\n" in iter(follower.stdout.readline, "")
        go.touch()
        rest, complaints = follower.communicate(timeout=200)
    finally:
        follower.kill()
        follower.communicate()
    assert "done\n" in rest
    assert follower.returncode == 0, complaints
    # A database that takes long to answer may be told of, and is then told to be back.
    assert "Traceback" not in complaints
