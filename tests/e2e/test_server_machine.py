"""Any order of creates, stops, SIGKILLs of the server and restarts leads each job to one end.

Server, supervisors and scripts are real; the client is boto3. What must hold is read from the
folders, as anybody could after the fact.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.jobs.jobs import Jobs
from trackside.records.journal import History, Journal
from trackside.records.status import Secondary, Status
from trackside.settings import Settings

pytestmark = pytest.mark.timeout(900)

CORES = 2
TRAIN = """
import os, time
with open(os.path.join(os.environ["LEDGER"], os.environ["TRAINING_JOB_NAME"]), "a") as ledger:
    ledger.write("run\\n")
time.sleep(float(os.environ["SECONDS"]))
print("done")
"""


class ServerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="trackside-server-"))
        self.variables = {
            "TRACKSIDE_HOME": str(self.root / "home"),
            "TRACKSIDE_CAPACITY": f"cores={CORES},memory_gb=64,gpus=0",
            "TRACKSIDE_S3": "embedded",
        }
        self.settings = Settings.load(self.variables)
        self.ledger = self.root / "ledger"
        self.ledger.mkdir()
        self.key, self.secret = AccessKeys(self.settings.layout.server.root).create(
            "machine", Rights.ADMIN
        )
        self._store_code()
        self.num_jobs = 0
        self.accepted: list[str] = []
        self.asked_to_stop: set[str] = set()
        self.ended: dict[str, History] = {}
        self.start()

    def _store_code(self) -> None:
        archive = self.settings.layout.buckets / "code" / "source.tar.gz"
        archive.parent.mkdir(parents=True)
        with tarfile.open(archive, "w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(TRAIN)
            tar.addfile(info, io.BytesIO(TRAIN.encode()))

    def start(self) -> None:
        path = os.pathsep.join(path for path in sys.path if path)
        command = ["trackside.cli", "server", "--listen", "127.0.0.1:0", "--quiet"]
        with (self.root / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**os.environ, "PYTHONPATH": path, **self.variables},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.server.stdout is not None
        url = self.server.stdout.readline().split()[-1]
        self.client = boto3.client(
            "sagemaker",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=self.key.id,
            aws_secret_access_key=self.secret,
            config=Config(retries={"total_max_attempts": 1}),
        )

    def die(self) -> None:
        self.server.send_signal(signal.SIGKILL)
        self.server.communicate()

    def request(self, cores: int, seconds: float, priority: int) -> dict[str, Any]:
        self.num_jobs += 1
        kind = {1: "local", 2: "ml.m5.large"}[cores]
        return {
            "TrainingJobName": f"job-{self.num_jobs}",
            "RoleArn": "arn:aws:iam::000000000000:role/trackside",
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "HyperParameters": {
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": "s3://code/source.tar.gz",
            },
            "Environment": {"LEDGER": str(self.ledger), "SECONDS": str(seconds)},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
            "ResourceConfig": {"InstanceType": kind, "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            "Tags": [{"Key": "trackside:priority", "Value": str(priority)}],
        }

    def history(self, name: str) -> History:
        return Journal(self.settings.layout.job(name).journal).read()

    @rule(
        cores=st.lists(st.sampled_from([1, 1, 2]), min_size=2, max_size=3),
        seconds=st.sampled_from([0, 0.5]),
        priority=st.integers(0, 1),
    )
    def create(self, cores: list[int], seconds: float, priority: int) -> None:
        for each in cores:
            request = self.request(each, seconds, priority)
            self.client.create_training_job(**request)
            self.accepted.append(request["TrainingJobName"])

    @rule(milliseconds=st.integers(0, 30))
    def create_and_kill(self, milliseconds: int) -> None:
        """Whatever the client was told, the job is there whole, or its name is free."""
        request = self.request(1, 0, 0)
        name = request["TrainingJobName"]
        reported: list[str] = []

        def ask() -> None:
            try:
                self.client.create_training_job(**request)
                reported.append(name)
            except (BotoCoreError, ClientError):
                pass

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(milliseconds / 1000)
        self.die()
        asking.join(60)
        self.start()
        if self.settings.layout.job(name).root.exists():
            self.accepted.append(name)
        else:
            assert not reported, f"{name} was accepted, and is lost"

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.accepted))
        try:
            self.client.stop_training_job(TrainingJobName=name)
            self.asked_to_stop.add(name)
        except ClientError:
            assert self.history(name).state.is_final

    @rule()
    def kill_and_restart(self) -> None:
        self.die()
        self.start()

    @rule()
    def look(self) -> None:
        """An end is an end, and whoever asks the server is told what the folder says."""
        for name in self.accepted:
            reported = self.client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
            history = self.history(name)
            if name in self.ended:
                assert history == self.ended[name]
                assert reported == history.state.status
            elif history.state.is_final:
                self.ended[name] = history

    def teardown(self) -> None:
        try:
            until(self.is_quiet, seconds=300)
            self.look()
            for name in self.accepted:
                self.check_end(name)
            self.check_capacity()
            listed = self.client.list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
            assert {each["TrainingJobName"] for each in listed} == set(self.accepted)
        finally:
            self.server.terminate()
            self.server.communicate(timeout=120)
        shutil.rmtree(self.root, ignore_errors=True)

    def is_quiet(self) -> bool:
        return all(self.history(name).state.is_final for name in self.accepted)

    def check_end(self, name: str) -> None:
        history = self.history(name)
        ledger = self.ledger / name
        num_runs = len(ledger.read_text().splitlines()) if ledger.exists() else 0
        if history.state.status is Status.COMPLETED:
            jobs = Jobs(self.settings, {})
            assert num_runs == 1, f"{name} ran {num_runs} times"
            assert [line.data for line in jobs.logs(name)].count(b"done\n") == 1
            assert any(item.uri.endswith("model.tar.gz") for item in jobs.artifacts(name))
        else:
            assert history.state.status is Status.STOPPED, history.failure_reason
            assert name in self.asked_to_stop
            assert num_runs <= 1
            if history.transitions[-2].secondary is Secondary.PENDING:
                assert num_runs == 0, f"{name} ran, though it was stopped while it waited"

    def check_capacity(self) -> None:
        """By the times in the journals: at no moment did jobs hold more than there is."""
        changes: list[tuple[float, int]] = []
        for name in self.accepted:
            history = self.history(name)
            began = [t.end for t in history.transitions if t.secondary is Secondary.PENDING]
            cores = 2 if "m5.large" in self.settings.layout.job(name).spec.read_text() else 1
            assert began[0] is not None
            changes += [(began[0], cores), (history.modified, -cores)]
        held = 0
        for _, change in sorted(changes):
            held += change
            assert held <= CORES


def lasting(max_examples: int) -> settings:
    return settings(
        max_examples=max_examples,
        stateful_step_count=10,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class TestServer(ServerMachine.TestCase):  # type: ignore[valid-type,misc]
    settings = lasting(2)


@pytest.mark.nightly
class TestServerForLonger(ServerMachine.TestCase):  # type: ignore[valid-type,misc]
    settings = lasting(8)
