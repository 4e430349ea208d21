"""`trackside server` as users start it, with a client, and a script that says when it ran."""

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.training_request import training_request
from trackside.api.keys import AccessKeys, Rights
from trackside.settings import Settings

_SCRIPT = """\
import time
now = time.time_ns()
import os
with open(os.path.join(os.environ["STAMPS"], os.environ["TRAINING_JOB_NAME"]), "a") as file:
    file.write(f"{now}\\n")
time.sleep(float(os.environ["SECONDS"]))
"""
_PATIENCE_SECONDS = 60.0


class RunningServer:
    def __init__(self, folder: Path, settings: Settings, process: "subprocess.Popen[str]") -> None:
        self.settings = settings
        self.process = process
        self._stamps = folder / "stamps"
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        key, secret = AccessKeys(settings.layout.server.root).create("bench", Rights.ADMIN)
        self.client: Any = boto3.client(
            "sagemaker",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=key.id,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )

    def request(self, name: str, seconds: float = 0.0) -> dict[str, Any]:
        """For a job that needs one core."""
        return training_request(
            name,
            Environment={"STAMPS": str(self._stamps), "SECONDS": str(seconds)},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
        )

    def create(self, name: str, seconds: float = 0.0) -> None:
        self.client.create_training_job(**self.request(name, seconds))

    def num_runs(self, name: str) -> int:
        path = self._stamps / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def first_line(self, name: str, since_ns: int) -> float:
        """Milliseconds until the job's script said that it runs; waits for it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.num_runs(name):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not run within {_PATIENCE_SECONDS} s")
            time.sleep(0.005)
        self._await_end(name)
        return (int((self._stamps / name).read_text().split()[0]) - since_ns) / 1e6

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def _await_end(self, name: str) -> None:
        while self.client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] not in (
            "Completed",
            "Failed",
            "Stopped",
        ):
            time.sleep(0.05)


@contextmanager
def running_server(folder: Path, *, cores: int = 2) -> Iterator[RunningServer]:
    variables = {
        "TRACKSIDE_HOME": str(folder / "home"),
        "TRACKSIDE_S3": "embedded",
        "TRACKSIDE_CAPACITY": f"cores={cores}",
    }
    settings = Settings.load(variables)
    (folder / "stamps").mkdir(exist_ok=True)
    archive = settings.layout.buckets / "code" / "source.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("train.py")
        info.size = len(_SCRIPT)
        tar.addfile(info, io.BytesIO(_SCRIPT.encode()))
    command = ["trackside.cli", "server", "--listen", "127.0.0.1:0", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield RunningServer(folder, settings, process)
        finally:
            process.terminate()
