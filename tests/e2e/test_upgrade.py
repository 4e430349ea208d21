"""A home that an older Trackside wrote is today's, as docs/operations.md says of an upgrade.

`upgrade/make_home.py` made each archive, by that version's own server. It lies at another path now,
and the machine has been started since: so the job that a power cut ended goes on as well.
"""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.conftest import Machine
from tests.job_processes import end_processes_of
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.records.layout import Home

FOLDER = Path(__file__).with_name("upgrade")
ARCHIVES = sorted(FOLDER.glob("home-*.tar.gz"))
GROUP = "/aws/sagemaker/TrainingJobs"
FINAL = {"Completed", "Failed", "Stopped"}
WENT_ON = ("waits", "cut")
"""Those that had not ended."""


@dataclass
class Upgraded:
    home: Home
    expected: dict[str, Any]
    """What the older version's clients knew."""
    server: ServerProcess

    def client(self, service: str, label: str = "operator") -> Any:
        key = self.expected["keys"][label]
        return boto3.client(
            service,
            endpoint_url=self.server.url,
            region_name="us-east-1",
            aws_access_key_id=key["id"],
            aws_secret_access_key=key["secret"],
        )

    def listed(self) -> dict[str, str]:
        reported = self.client("sagemaker").list_training_jobs(MaxResults=100)[
            "TrainingJobSummaries"
        ]
        return {each["TrainingJobName"]: each["TrainingJobStatus"] for each in reported}

    def described(self, name: str) -> Any:
        return self.client("sagemaker").describe_training_job(TrainingJobName=name)

    def stored(self, key: str) -> bytes:
        asked = {"Bucket": self.expected["bucket"], "Key": key}
        content: bytes = self.client("s3").get_object(**asked)["Body"].read()
        return content

    def log(self, name: str) -> str:
        asked = {"logGroupName": GROUP, "logStreamNamePrefix": f"{name}/"}
        logs = self.client("logs")
        [stream] = logs.describe_log_streams(**asked)["logStreams"]
        named = {"logGroupName": GROUP, "logStreamName": stream["logStreamName"]}
        events = logs.get_log_events(**named, startFromHead=True)["events"]
        return "\n".join(event["message"] for event in events)

    def trackside(self, *words: str) -> str:
        """As an operator types it at the server's machine."""
        environ = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(path for path in sys.path if path),
            "TRACKSIDE_HOME": str(self.home.root),
        }
        command = [sys.executable, "-m", "trackside.cli", *words]
        done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
        return done.stdout


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name)
def upgraded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upgraded]:
    """Today's server runs on it, and the jobs that had not ended have."""
    folder = tmp_path_factory.mktemp("upgrade")
    how = ("--no-same-owner", "--xattrs", "--xattrs-include=user.*")
    subprocess.run(["tar", "-C", folder, *how, "-xpf", request.param], check=True)
    expected = json.loads((folder / "expected.json").read_bytes())
    home = Home(folder / "trackside")
    variables = {
        "TRACKSIDE_CAPACITY": "cores=8,memory_gb=64",
        "TRACKSIDE_UPLOAD_AGE": "0",  # the archive may be of long ago
    }
    try:
        with ServerProcess(home.root, **variables) as server:
            found = Upgraded(home, expected, server)
            until(lambda: set(found.listed().values()) <= FINAL, seconds=150)
            yield found
    finally:
        end_processes_of(home.root)


def test_there_is_an_archive():
    assert ARCHIVES


def test_today_s_records_have_the_number_of_their_format(machine: Machine):
    job = machine.run("print('hello')")
    found = {
        str(path.relative_to(job.folder.root)): json.loads(path.read_bytes())
        for path in job.folder.root.rglob("*.json")
        if "ml" not in path.parts
    }
    assert len(found) > 7
    own = {"packages.json", "script.json", "logger-files.json", "printed-metrics.json"}
    without = {path for path, record in found.items() if "format" not in record}
    assert {Path(path).name for path in without} <= own | {"algo-1.json"}  # metrics


def test_every_job_is_listed_and_those_that_had_not_ended_do(upgraded: Upgraded):
    before = upgraded.expected["jobs"]
    assert upgraded.listed() == before | dict.fromkeys(WENT_ON, "Completed")
    for name in before:
        reported = upgraded.described(name)
        assert reported["TrainingJobStatus"] == upgraded.listed()[name]
        assert reported["OutputDataConfig"]["S3OutputPath"].endswith("/out")
    assert "the data has no labels" in upgraded.described("fails")["FailureReason"]
    tags = upgraded.client("sagemaker").list_tags(
        ResourceArn=upgraded.described("plain")["TrainingJobArn"]
    )
    assert tags["Tags"] == [{"Key": "team", "Value": "vision"}]


def test_logs_and_models_are_read(upgraded: Upgraded):
    for name, line in {
        "plain": "step=4 loss=0.200",
        "cleared": "step=4 loss=0.200",
        "fails": "before the failure",
        "waits": "step=4 loss=0.200",
        "cut": "taken up again",
    }.items():
        assert line in upgraded.log(name), name
    weights = {"holder": b"held", "cut": b"whole"}
    for name in ("plain", "cleared", "waits", "holder", "cut"):
        model = upgraded.described(name)["ModelArtifacts"]["S3ModelArtifacts"]
        _, _, key = model.removeprefix("s3://").partition("/")
        with tarfile.open(fileobj=io.BytesIO(upgraded.stored(key))) as tar:
            member = tar.extractfile("weights.bin")
            assert member is not None
            assert member.read() == weights.get(name, b"weights " * 100)


def test_curves_metrics_and_findings_are_there(upgraded: Upgraded):
    [metric] = upgraded.described("plain")["FinalMetricDataList"]
    assert (metric["MetricName"], round(metric["Value"], 3)) == ("train:loss", 0.2)
    for name, points in (("plain", 5), ("watched", 12)):
        curves = json.loads(upgraded.trackside("metrics", name, "--tag", "train:loss", "--json"))
        assert [curve["points"] for curve in curves] == [points]
    [rule] = upgraded.described("watched")["DebugRuleEvaluationStatuses"]
    assert rule["RuleEvaluationStatus"] == "IssuesFound"
    assert "LossNotDecreasing" in upgraded.trackside("findings", "watched")
    assert "loss" in upgraded.trackside("tensors", "watched").lower()


def test_keys_are_good_and_jobs_have_their_owners(upgraded: Upgraded):
    assert upgraded.client("sagemaker", "viewer").list_training_jobs()["TrainingJobSummaries"]
    with pytest.raises(ClientError, match="AccessDenied"):
        upgraded.client("sagemaker", "viewer").delete_training_job(TrainingJobName="plain")
    with pytest.raises(ClientError, match="'operator'"):
        upgraded.client("sagemaker", "alice").delete_training_job(TrainingJobName="plain")
    listed = json.loads(upgraded.trackside("jobs", "--owner", "alice", "--json"))
    assert {row["name"] for row in listed} == {"holder", "waits"}
    [limit] = [
        key["limit"]
        for key in json.loads(upgraded.trackside("keys", "list", "--json"))
        if key["label"] == "alice"
    ]
    assert limit == 1


def test_objects_are_read_and_an_upload_goes_on(upgraded: Upgraded):
    s3, bucket = upgraded.client("s3"), upgraded.expected["bucket"]
    table = s3.get_object(Bucket=bucket, Key="sets/train/a b+c%20.csv")
    assert (table["ContentType"], table["Metadata"]) == ("text/csv", {"from": "the lab"})
    assert table["Body"].read() == b"1,2\n3,4\n"
    assert upgraded.stored("sets/ünï/data.bin") == bytes(range(256))
    upload = upgraded.expected["upload"]
    named = {"Bucket": bucket, "Key": upload["key"], "UploadId": upload["id"]}
    s3.complete_multipart_upload(
        **named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": upload["etag"]}]}
    )
    assert upgraded.stored(upload["key"]) == b"first " * 100


def test_what_was_open_to_others_is_not_any_more(upgraded: Upgraded):
    assert oct(upgraded.home.root.stat().st_mode & 0o777) == "0o700"
    keys = upgraded.home.server.root / "keys.json"
    assert oct(keys.stat().st_mode & 0o777) == "0o600"


def test_a_second_start_finds_the_same(upgraded: Upgraded):
    before = upgraded.listed()
    upgraded.server.kill()
    upgraded.server.start()
    assert upgraded.listed() == before
    reported = {name: upgraded.described(name)["TrainingJobStatus"] for name in before}
    assert reported == before
    tag = {"Key": "after", "Value": "the upgrade"}
    arn = upgraded.described("waits")["TrainingJobArn"]
    kept = upgraded.client("sagemaker", "alice").add_tags(ResourceArn=arn, Tags=[tag])["Tags"]
    assert tag in kept
