"""GetCallerIdentity, called by the real boto3."""

import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError


def refused(call, *arguments, **given) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(*arguments, **given)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_the_caller_identity_is_an_assumed_role(server):
    identity = server.client("sts").get_caller_identity()
    assert identity["Arn"] == f"arn:aws:sts::000000000000:assumed-role/trackside/{server.key_id}"
    assert identity["Account"] == "000000000000"
    assert identity["ResponseMetadata"]["HTTPHeaders"]["x-amzn-requestid"]


def test_a_role_may_be_assumed_by_sagemaker_whatever_its_name(server):
    role = server.client("iam").get_role(RoleName="SageMakerRole")["Role"]
    assert role["Arn"] == "arn:aws:iam::000000000000:role/SageMakerRole"
    statement = role["AssumeRolePolicyDocument"]["Statement"][0]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}


def test_every_simulated_action_is_allowed(server):
    answer = server.client("iam").simulate_principal_policy(
        PolicySourceArn="arn:aws:iam::000000000000:role/r",
        ActionNames=["s3:GetObject", "s3:PutObject"],
    )
    decisions = [(r["EvalActionName"], r["EvalDecision"]) for r in answer["EvaluationResults"]]
    assert decisions == [("s3:GetObject", "allowed"), ("s3:PutObject", "allowed")]


def test_a_wrong_secret_and_an_unknown_key_are_different_errors(server):
    wrong = server.client("sts", aws_secret_access_key="x" * 40)
    assert refused(wrong.get_caller_identity) == ("SignatureDoesNotMatch", 403)
    unknown = server.client("sts", aws_access_key_id="AKIANOBODY")
    assert refused(unknown.get_caller_identity) == ("InvalidClientTokenId", 403)


def test_a_revoked_key_is_rejected_at_once(server):
    client = server.client("sts")
    client.get_caller_identity()
    server.keys.revoke(server.key_id)
    assert refused(client.get_caller_identity) == ("InvalidClientTokenId", 403)


def test_an_unknown_operation_is_rejected_as_by_aws_and_names_the_known_ones(server):
    with pytest.raises(ClientError, match="GetCallerIdentity") as caught:
        server.client("sts").get_session_token()
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_a_service_we_lack_is_named(server):
    with pytest.raises(ClientError, match="'dynamodb' is not offered here. Offered: iam, sts"):
        server.client("dynamodb").list_tables()


def test_an_unsigned_request_is_refused(server):
    request = urllib.request.Request(
        server.url, b"{}", headers={"X-Amz-Target": "SageMaker.ListTrainingJobs"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert b"not offered" in caught.value.read()
