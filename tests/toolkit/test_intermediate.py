"""Intermediate output of our `train` on another platform, sent to a real S3 server."""

from pathlib import Path

import pytest

from tests.conftest import S3Server
from tests.toolkit.conftest import Host
from tests.wait import until

WRITES = """
import os, time
folder = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"]
os.makedirs(f"{folder}/a")
open(f"{folder}/a/early.txt", "w").write("one")
open(f"{folder}/changed.txt", "w").write("first")
os.symlink("/etc/hostname", f"{folder}/link")
while not os.path.exists("GO"):
    time.sleep(0.05)
open(f"{folder}/changed.txt", "w").write("second")
open(f"{folder}/late.txt", "w").write("two")
"""


def stored(s3_server: S3Server, bucket: str) -> dict[str, bytes]:
    client = s3_server.client()
    keys = [each["Key"] for each in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


@pytest.fixture
def elsewhere(host: Host, s3_server: S3Server) -> Host:
    host.variables |= s3_server.environment | {"TRAINING_JOB_NAME": "job-1"}
    return host


def test_it_is_sent_while_the_script_runs_and_once_more_at_its_end(elsewhere: Host, s3_server):
    bucket = s3_server.make_bucket()
    elsewhere.hyperparameters(sagemaker_s3_output=f"s3://{bucket}/out/")
    elsewhere.script(WRITES)
    process = elsewhere.start()
    below = "out/job-1/output/intermediate"
    early = {f"{below}/a/early.txt": b"one", f"{below}/changed.txt": b"first"}
    until(lambda: stored(s3_server, bucket) == early)
    (elsewhere.code / "GO").touch()
    assert process.wait() == 0
    assert stored(s3_server, bucket) == {
        **early,
        f"{below}/changed.txt": b"second",
        f"{below}/late.txt": b"two",
    }


def test_where_the_folder_is_there_the_platform_sends_it(elsewhere: Host, s3_server):
    bucket = s3_server.make_bucket()
    elsewhere.hyperparameters(sagemaker_s3_output=f"s3://{bucket}/out")
    (elsewhere.output / "intermediate").mkdir(parents=True)
    elsewhere.script(WRITES)
    (elsewhere.code / "GO").touch()
    assert elsewhere.train().code == 0
    assert stored(s3_server, bucket) == {}


def test_what_cannot_be_sent_is_reported_and_fails_nothing(elsewhere: Host):
    elsewhere.hyperparameters(sagemaker_s3_output="s3://no-such-bucket-here")
    elsewhere.script(WRITES)
    (elsewhere.code / "GO").touch()
    finished = elsewhere.train()
    assert finished.code == 0, finished.log
    assert "Intermediate output 'late.txt' was not uploaded: " in finished.log


@pytest.mark.parametrize(("target", "code"), [("file:///tmp/out", 0), ("gs://bucket/out", 1)])
def test_other_places(elsewhere: Host, target: str, code: int):
    elsewhere.hyperparameters(sagemaker_s3_output=target)
    elsewhere.script("print('ran')")
    assert elsewhere.train().code == code
    assert not Path("/tmp/out").exists()
    if code:
        assert "sagemaker_s3_output is 'gs://bucket/out'" in elsewhere.failure
