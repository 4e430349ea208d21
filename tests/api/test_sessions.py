"""Temporary keys, for profiles with a role, as boto3 gets and uses them."""

import time
import urllib.request
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import Server
from tests.api.test_job_credentials import begin
from trackside.api import sessions
from trackside.api.job_credentials import JobCredentials
from trackside.api.keys import AccessKeys, Rights
from trackside.api.sessions import Sessions
from trackside.records.status import Secondary
from trackside.settings import Settings

ROLE = "arn:aws:iam::000000000000:role/team"


def assumed(service: Server, **given: int) -> dict[str, str]:
    """As arguments of a client."""
    answer = service.client("sts").assume_role(RoleArn=ROLE, RoleSessionName="me", **given)
    made = answer["Credentials"]
    assert answer["AssumedRoleUser"]["Arn"].endswith(":assumed-role/team/me")
    return {
        "aws_access_key_id": made["AccessKeyId"],
        "aws_secret_access_key": made["SecretAccessKey"],
        "aws_session_token": made["SessionToken"],
    }


def code(call, **given) -> str:
    with pytest.raises(ClientError) as caught:
        call(**given)
    return str(caught.value.response["Error"]["Code"])


def test_a_temporary_key_does_what_its_parent_may(service: Server):
    temporary = assumed(service)
    listed = service.client("sagemaker", **temporary).list_training_jobs()
    assert listed["TrainingJobSummaries"] == []
    s3 = service.client("s3", **temporary)
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="a", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": "data-1", "Key": "a"})
    assert "X-Amz-Security-Token=" in url
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"x"


def test_rights_are_those_of_the_parent_and_end_with_it(service: Server):
    key, secret = service.keys.create("reader", Rights.READ)
    reader = Server(service.url, service.keys, key.id, secret)
    temporary = assumed(reader)
    client = service.client("sagemaker", **temporary)
    client.list_training_jobs()
    assert code(client.stop_training_job, TrainingJobName="a") == "AccessDeniedException"
    service.keys.revoke(key.id)
    assert code(client.list_training_jobs) == "UnrecognizedClientException"


def test_a_tampered_token_is_invalid(service: Server):
    temporary, other = assumed(service), assumed(service)
    wrong = (
        {**temporary, "aws_secret_access_key": other["aws_secret_access_key"]},
        {**temporary, "aws_session_token": other["aws_session_token"]},
        {**temporary, "aws_session_token": "bm9uZQ=="},
        {k: v for k, v in temporary.items() if k != "aws_session_token"},
    )
    codes = [code(service.client("sagemaker", **each).list_training_jobs) for each in wrong]
    assert codes == ["InvalidSignatureException", *["UnrecognizedClientException"] * 3]


def test_a_session_ends(service: Server, monkeypatch: pytest.MonkeyPatch):
    temporary = assumed(service, DurationSeconds=900)
    client = service.client("sagemaker", **temporary)
    client.list_training_jobs()
    later = time.time() + 901
    monkeypatch.setattr(sessions, "time", SimpleNamespace(time=lambda: later))
    assert code(client.list_training_jobs) == "UnrecognizedClientException"


def test_a_stale_token_in_the_environment_is_ignored(service: Server):
    client = service.client("sagemaker", aws_session_token="left over from yesterday")
    assert client.list_training_jobs()["TrainingJobSummaries"] == []


def test_lengths_and_names_are_checked(service: Server):
    sts = service.client("sts")
    assert code(sts.assume_role, RoleArn=ROLE, RoleSessionName="a b") == "ValidationError"
    given = {"RoleArn": ROLE, "RoleSessionName": "me", "DurationSeconds": 43201}
    assert code(sts.assume_role, **given) == "ValidationError"


def test_a_session_of_a_job_ends_with_it_also_when_another_has_its_name():
    home = Settings.load().layout
    keys = AccessKeys(home.server.root)
    credentials = JobCredentials(keys, home)
    made = Sessions(keys, credentials)
    begin(home, "job", "first nonce")
    session, token = made.issue(credentials.get("TSJOB-job"), 900)
    assert made.find(token, session.id) == session
    journal = begin(home, "job", "second nonce")
    assert credentials.secret_of("TSJOB-job") is not None
    assert made.find(token, session.id) is None
    second, its_token = made.issue(credentials.get("TSJOB-job"), 900)
    assert made.find(its_token, second.id) == second
    journal.move(Secondary.FAILED, reason="for the test")
    assert made.find(its_token, second.id) is None
