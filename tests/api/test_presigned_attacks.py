"""Attacks with a presigned URL, by a client without a key: against a server with its own buckets,
and through one that relays to another store."""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from tests.api.training import request as job_request
from tests.server_process import ServerProcess
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home

pytestmark = pytest.mark.xdist_group("presigned")  # two servers for all of them

REGION = "eu-central-1"
CREATE = {
    "X-Amz-Target": "SageMaker.CreateTrainingJob",
    "Content-Type": "application/x-amz-json-1.1",
}
UNSIGNED_HEADERS = "There were headers present in the request which were not signed"


@dataclass(frozen=True)
class Victim:
    """A caller who may submit jobs, and gives a presigned URL away."""

    url: str
    admin: Credentials
    submitter: Credentials

    def client(self, service: str, credentials: Credentials | None = None) -> Any:
        key = credentials or self.submitter
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=key.access_key,
            aws_secret_access_key=key.secret_key,
            config=Config(retries={"total_max_attempts": 1}),
        )

    def address(self, operation: str, **given: Any) -> str:
        return str(self.client("s3").generate_presigned_url(operation, given))

    def signed(self, method: str, path: str, signer: type[SigV4Auth], service: str = "s3") -> str:
        request = AWSRequest(method, self.url + path)
        signer(self.submitter, service, REGION).add_auth(request)
        return str(request.url)

    def jobs(self) -> list[str]:
        found = self.client("sagemaker").list_training_jobs()["TrainingJobSummaries"]
        return [each["TrainingJobName"] for each in found]

    def keys(self, bucket: str) -> list[str]:
        found = self.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
        return [each["Key"] for each in found]


def victim_of(server: ServerProcess) -> Victim:
    key, secret = AccessKeys(Home(server.home).server.root).create("somebody", Rights.SUBMIT)
    admin = Credentials(server.key.id, server.secret)
    return Victim(server.url, admin, Credentials(key.id, secret))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    home: Path = tmp_path_factory.mktemp("embedded")
    with ServerProcess(home, TRACKSIDE_S3="embedded") as server:
        found = victim_of(server)
        for bucket in ("public", "secret"):
            found.client("s3").create_bucket(Bucket=bucket)
        yield found


@pytest.fixture(scope="module")
def relayed(embedded: Victim, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    store = {
        "TRACKSIDE_STORAGE": "s3://public",
        "AWS_ENDPOINT_URL_S3": embedded.url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": embedded.admin.access_key,
        "AWS_SECRET_ACCESS_KEY": embedded.admin.secret_key,
    }
    with ServerProcess(tmp_path_factory.mktemp("front"), **store) as server:
        yield victim_of(server)


@pytest.fixture(params=["embedded", "relayed"])
def victim(request: pytest.FixtureRequest, embedded: Victim) -> Victim:
    s3 = embedded.client("s3")
    for key in embedded.keys("public"):
        s3.delete_object(Bucket="public", Key=key)
    s3.put_object(Bucket="secret", Key="weights", Body=b"for few")
    found: Victim = request.getfixturevalue(request.param)
    return found


def send(
    method: str, address: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """As any program does that knows nothing of AWS."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=60)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request(method, target, body or None, dict(headers or {}))
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_an_address_of_an_object_starts_no_job(victim, method):
    operation = {"GET": "get_object", "PUT": "put_object", "POST": "create_multipart_upload"}
    address = victim.address(operation[method], Bucket="public", Key="k")
    status, text = send(method, address, json.dumps(job_request()).encode(), CREATE)
    assert (status, "<Code>AccessDenied</Code>" in text) == (403, True)
    assert UNSIGNED_HEADERS in text
    assert victim.jobs() == []


def test_an_address_cannot_be_made_one_of_another_service(victim):
    body = json.dumps(job_request()).encode()
    address = victim.address("get_object", Bucket="public", Key="k")
    altered = address.replace("%2Fs3%2F", "%2Fsagemaker%2F")
    assert altered != address
    assert send("POST", altered, body, CREATE)[0] in (400, 403)
    # Not even one that was signed for it: its holder would choose the body.
    for signer in (S3SigV4QueryAuth, SigV4QueryAuth):
        for service in ("sagemaker", "logs", "monitoring", "iam"):
            address = victim.signed("POST", "/", signer, service)
            assert send("POST", address, body, CREATE)[0] in (400, 403)
    assert victim.jobs() == []


def test_a_signed_target_must_be_of_the_service_that_the_signature_is_for(victim):
    body = json.dumps(job_request()).encode()
    for service in ("s3", "sts", "iam", "logs", "monitoring"):
        request = AWSRequest("POST", f"{victim.url}/public", headers=CREATE, data=body)
        request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD" if service == "s3" else ""
        SigV4Auth(victim.submitter, service, REGION).add_auth(request)
        assert send("POST", request.url, body, dict(request.headers))[0] in (400, 403, 404)
    assert victim.jobs() == []


@pytest.mark.parametrize("source", ["secret/weights", "/secret/weights", "secret%2Fweights"])
def test_an_address_to_put_an_object_copies_none(victim, source):
    address = victim.address("put_object", Bucket="public", Key="mine")
    for headers in ({"x-amz-copy-source": source}, {"X-AMZ-COPY-SOURCE": source}):
        for body in (b"", b"x"):
            status, text = send("PUT", address, body, headers)
            assert (status, UNSIGNED_HEADERS in text, "x-amz-copy-source" in text) == (
                403,
                True,
                True,
            )
    assert victim.keys("public") == []


def test_an_address_of_a_part_copies_none(victim):
    s3 = victim.client("s3")
    upload = s3.create_multipart_upload(Bucket="public", Key="mine")["UploadId"]
    address = victim.address(
        "upload_part", Bucket="public", Key="mine", UploadId=upload, PartNumber=1
    )
    assert send("PUT", address, b"", {"x-amz-copy-source": "secret/weights"})[0] == 403
    assert "Parts" not in s3.list_parts(Bucket="public", Key="mine", UploadId=upload)
    assert send("PUT", address, b"a part")[0] == 200


@pytest.mark.parametrize(
    "name", ["x-amz-acl", "x-amz-meta-owner", "x-amz-tagging", "x-amz-storage-class"]
)
def test_metadata_of_an_upload_is_signed(victim, name):
    address = victim.address("put_object", Bucket="public", Key="mine")
    status, text = send("PUT", address, b"1", {name: "public-read"})
    assert (status, UNSIGNED_HEADERS in text, name in text) == (403, True, True)
    assert victim.keys("public") == []
    assert send("PUT", address, b"1", {"Content-Type": "text/plain"})[0] == 200
    assert victim.keys("public") == ["mine"]


def test_an_address_is_good_for_its_own_method_and_object_alone(victim):
    get = victim.address("get_object", Bucket="secret", Key="weights")
    assert send("GET", get) == (200, "for few")
    for method in ("PUT", "POST", "DELETE"):
        assert send(method, get, b"x")[0] == 403
    assert send("GET", get.replace("/weights", "/other"))[0] == 403
    assert send("GET", f"{get}&versionId=null")[0] == 403
    assert send("GET", get, b"a body that nobody signed")[0] == 403


def test_the_holder_of_an_address_names_no_objects_to_delete(victim):
    victim.client("s3").put_object(Bucket="public", Key="kept", Body=b"1")
    address = victim.signed("POST", "/public?delete", S3SigV4QueryAuth)
    document = b"<Delete><Object><Key>kept</Key></Object></Delete>"
    status, text = send("POST", address, document)
    assert (status, "x-amz-content-sha256" in text) == (403, True)
    assert victim.keys("public") == ["kept"]


def test_the_holder_of_addresses_completes_the_upload_that_they_name(victim):
    s3 = victim.client("s3")
    upload = s3.create_multipart_upload(Bucket="public", Key="big")["UploadId"]
    given = {"Bucket": "public", "Key": "big", "UploadId": upload}
    assert send("PUT", victim.address("upload_part", **given, PartNumber=1), b"all")[0] == 200
    etag = s3.list_parts(**given)["Parts"][0]["ETag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    address = victim.address("complete_multipart_upload", **given)
    assert send("POST", address, document)[0] == 200
    assert s3.get_object(Bucket="public", Key="big")["Body"].read() == b"all"


def test_an_address_beside_an_authorization_is_refused(victim):
    address = victim.address("get_object", Bucket="secret", Key="weights")
    status, text = send("GET", address, headers={"Authorization": "Basic eDp5"})
    assert (status, "Only one auth mechanism allowed" in text) == (400, True)


def test_a_presigned_url_can_get_the_caller_identity(victim):
    """As EKS calls STS."""
    sts = victim.client("sts")
    address = sts.generate_presigned_url("get_caller_identity", HttpMethod="GET")
    status, text = send("GET", address)
    assert (status, victim.submitter.access_key in text) == (200, True)
    body = b"Action=AssumeRole&RoleArn=arn:aws:iam::0:role/x&RoleSessionName=xy&Version=2011-06-15"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert send("GET", address, body, kind)[0] == 403
