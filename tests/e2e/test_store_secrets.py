"""A server before a real store: its jobs use the store without ever having its keys."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Server
from tests.e2e.conftest import Job, made_machine
from tests.job_processes import end_processes_of
from tests.server_process import TRACKSIDE, ServerProcess
from trackside.jobs.queue import no_limit
from trackside.records.spec import JobSpec

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_ACCESS_KEY_ID": "test-access-key",
    "AWS_SESSION_TOKEN": "secret-session-token",
    "AWS_PROFILE": "secret-profile",
    "AWS_SHARED_CREDENTIALS_FILE": "/etc/secret-credentials",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/etc/secret-token",
    "TRACKSIDE_WEBHOOK_SECRET": "secret-of-webhooks",
    "TRACKSIDE_SMTP_PASSWORD": "secret-of-mail",
    "HF_TOKEN": "secret-of-the-hub",
    "INDEX_URL": "https://me:secret-of-the-index@host/simple",
}
TRAIN = """
import json, os
import boto3, torch
from trackside.capture import Hook, SaveConfig, create_trial

environs = [open(f"/proc/{pid}/environ").read() for pid in (os.getpid(), os.getppid())]
s3, bucket = boto3.client("s3"), os.environ["BUCKET"]
s3.put_object(Bucket=bucket, Key="from/the/script", Body=b"hello")

model = torch.nn.Linear(2, 1)
root = "/opt/ml/output/data/trial"
hook = Hook(root, save_config=SaveConfig(save_interval=1), include_regex=".*")
hook.register_module(model)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
hook.close()
for folder, _, files in os.walk(root):
    for name in files:
        path = os.path.join(folder, name)
        s3.upload_file(path, bucket, "trial/" + os.path.relpath(path, root))
trial = create_trial(f"s3://{bucket}/trial")
told = {
    "environ": dict(os.environ),
    "raw": environs,
    "read": s3.get_object(Bucket=bucket, Key="from/the/script")["Body"].read().decode(),
    "who": boto3.client("sts").get_caller_identity()["Arn"],
    "tensors": trial.tensor_names(),
}
with open(os.environ["TOLD"], "w") as file:
    json.dump(told, file)
"""


@pytest.fixture
def server(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[ServerProcess]:
    variables = {
        **s3_server.environment,
        **SECRETS,
        "TRACKSIDE_STORAGE": f"s3://{bucket}/team",
        "WANDB_API_KEY": "for all jobs",
        "TRACKSIDE_JOB_VARIABLES": "WANDB_API_KEY",
    }
    with ServerProcess(tmp_path / "server's home", **variables) as server:
        yield server
        end_processes_of(server.home)


@pytest.fixture
def reported(
    tmp_path: Path, server: ServerProcess, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What a job's script has seen."""
    server.use(monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "train.py").write_text(TRAIN)
    given = {"BUCKET": bucket, "TOLD": str(tmp_path / "told")}
    options = [part for item in given.items() for part in ("--environment", "=".join(item))]
    done = subprocess.run(
        [*TRACKSIDE, "run", "train.py", "--name", "job", "--wait", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads((tmp_path / "told").read_text())
    return answer


def test_a_script_uses_the_store_by_its_own_key_and_sees_no_other(
    reported: dict[str, Any], server: ServerProcess, s3_server: S3Server, bucket: str
):
    seen = reported["environ"]
    assert seen["AWS_ACCESS_KEY_ID"] == "TSJOB-job"
    assert seen["AWS_ENDPOINT_URL"] == seen["AWS_ENDPOINT_URL_S3"] == server.url
    assert reported["who"].endswith("TSJOB-job")
    for text in (json.dumps(seen), *reported["raw"]):
        assert [secret for secret in SECRETS.values() if secret in text] == []
    assert seen["WANDB_API_KEY"] == "for all jobs"
    # It is the store itself that it has written to, and that the supervisor published to.
    assert reported["read"] == "hello"
    assert reported["tensors"]
    stored = s3_server.client()
    assert stored.get_object(Bucket=bucket, Key="from/the/script")["Body"].read() == b"hello"
    stored.head_object(Bucket=bucket, Key="team/job/output/model.tar.gz")
    # And nobody has written a key down.
    texts = [path.read_bytes() for path in server.home.rglob("*") if path.is_file()]
    secrets = [*SECRETS.values(), reported["environ"]["AWS_SECRET_ACCESS_KEY"]]
    assert [secret for secret in secrets if any(secret.encode() in text for text in texts)] == []


def test_whoever_starts_a_server_s_job_gives_it_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A command in an operator's shell may be the one that brings its supervisor back."""
    monkeypatch.setenv("HF_TOKEN", "secret-of-the-hub")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-shell")
    monkeypatch.setenv("HARMLESS", "yes")
    request = {
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "AlgorithmSpecification": {"ContainerEntrypoint": ["env"]},
    }
    with made_machine(tmp_path) as machine:
        own = JobSpec.from_request({**request, "TrainingJobName": "own"})
        served = JobSpec.from_request({**request, "TrainingJobName": "served"})
        machine.jobs.submit(own)
        machine.jobs.enqueue(served, key="TSKEY", who="team")
        with machine.jobs.scheduler(no_limit):
            jobs = {name: Job(machine, name) for name in ("own", "served")}
            for job in jobs.values():
                assert job.wait().state.status == "Completed"
        logs = {name: job.log() for name, job in jobs.items()}
    assert all("HARMLESS=yes" in log for log in logs.values())
    assert "secret-of-the-hub" in logs["own"]
    assert "secret-of-the-shell" in logs["own"]
    assert "secret-of" not in logs["served"]


FAILING = "import os; raise ValueError('refused: ' + os.environ['API_TOKEN'])"


def test_a_job_s_own_secret_is_in_its_description_and_shown_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "train.py").write_text(FAILING)
    home, log = tmp_path / "trackside home", tmp_path / "server.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", "--log-format", "json"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        monkeypatch.setenv("TRACKSIDE_URL", url)

        def trackside(*arguments: str) -> str:
            done = subprocess.run(
                [*TRACKSIDE, *arguments], cwd=tmp_path, capture_output=True, text=True
            )
            return done.stdout + done.stderr

        secret = ("--environment", "API_TOKEN=hush-hush")
        trackside("run", "train.py", "--name", "job", "--wait", *secret)
        shown = trackside("show", "job")
        assert "ValueError: refused: ***" in shown
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as page:
            metrics = page.read().decode()
        described = json.loads(trackside("show", "job", "--json"))
        for text in (shown, metrics, trackside("jobs"), described["FailureReason"]):
            assert "hush" not in text
        assert described["Environment"]["API_TOKEN"] == "hush-hush"  # as on AWS
    finally:
        server.terminate()
        server.communicate(timeout=120)
        end_processes_of(home)
    said = log.read_text()
    assert "CreateTrainingJob" in said
    assert "hush" not in said
