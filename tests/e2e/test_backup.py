"""A home copied while its server runs is a server again, as docs/operations.md says it is done."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN, make_spec, run_to_end
from tests.server_process import ServerProcess
from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep
from trackside.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
BACKUP, RESTORE = re.findall(r"^```shell\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "first")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


def run(script: str, tmp_path: Path, home: Path) -> None:
    """As an operator would type it; `trackside` is this one."""
    program = tmp_path / "bin" / "trackside"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trackside.cli "$@"\n')
        program.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TRACKSIDE_HOME": str(home),
        "BACKUP": str(tmp_path / "backup"),
    }
    subprocess.run(["sh", "-ec", script], env=environ, check=True, timeout=300)


def client(service: str, server: ServerProcess, key: str, secret: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


def test_a_server_on_a_copy_has_the_jobs_their_models_and_the_keys(jobs: Jobs, tmp_path: Path):
    for name in ("in-storage-only", "with-a-folder"):
        jobs.submit(make_spec(name))
        run_to_end(jobs, name)
        if name == "in-storage-only":
            disk = jobs.disk
            assert all(disk.remove(item) for item in disk.find(Keep(age_seconds=0.0)))
    (tmp_path / "backup").mkdir()
    with ServerProcess(jobs.settings.home) as first:
        given = first.key.id, first.secret
        listed = client("sagemaker", first, *given).list_training_jobs()["TrainingJobSummaries"]
        run(BACKUP, tmp_path, jobs.settings.home)
    assert not (tmp_path / "backup" / "index.sqlite").exists()
    os.rename(jobs.settings.home, tmp_path / "lost")
    second_home = tmp_path / "elsewhere" / "second"
    second_home.parent.mkdir()
    run(RESTORE, tmp_path, second_home)
    with ServerProcess(second_home) as second:
        sagemaker = client("sagemaker", second, *given)
        found = sagemaker.list_training_jobs()["TrainingJobSummaries"]
        assert found == listed
        assert {each["TrainingJobName"] for each in found} == {"in-storage-only", "with-a-folder"}
        for each in found:
            reported = sagemaker.describe_training_job(TrainingJobName=each["TrainingJobName"])
            bucket, _, key = reported["ModelArtifacts"]["S3ModelArtifacts"][5:].partition("/")
            stored = client("s3", second, *given).get_object(Bucket=bucket, Key=key)
            assert stored["Body"].read() == b"a model"
    assert oct(second_home.stat().st_mode & 0o777) == "0o700"
    assert oct((second_home / "server" / "master.key").stat().st_mode & 0o777) == "0o600"
