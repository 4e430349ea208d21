"""What our client signs is what AWS's own would, and what our server takes."""

import hashlib
from datetime import UTC, datetime

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from trackside.api.sigv4 import NotSigned, verify
from trackside.sigv4 import Request, Scope, signed_headers

KEY, SECRET, REGION = "TSKEY", "secret/with+signs", "local"
BODY = '{"TrainingJobName": "jöb"}'.encode()
DIGEST = hashlib.sha256(BODY).hexdigest()


def signed(request: Request, service: str) -> Request:
    now = datetime.now(UTC)
    scope = Scope(KEY, f"{now:%Y%m%d}", REGION, service)
    headers = signed_headers(request, DIGEST, scope, now, SECRET)
    return Request(request.method, request.path, request.query, headers)


REQUESTS = [
    (Request("POST", "/", "", {"host": "a:7007", "x-amz-target": "SageMaker.X  Y"}), "sagemaker"),
    (Request("PUT", "/bucket/a%20b/%C3%A9", "uploads=&x=1%2F2", {"host": "a:7007"}), "s3"),
]


@pytest.mark.parametrize(("request_", "service"), REQUESTS, ids=["sagemaker", "s3"])
def test_botocore_signs_the_same(request_: Request, service: str):
    ours = signed(request_, service)
    query = f"?{request_.query}" if request_.query else ""
    theirs = AWSRequest(
        request_.method,
        f"http://{request_.headers['host']}{request_.path}{query}",
        headers={name: value for name, value in ours.headers.items() if name != "authorization"},
        data=BODY,
    )
    theirs.context["timestamp"] = ours.headers["x-amz-date"]
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(
        Credentials(KEY, SECRET), service, REGION
    )
    canonical = auth.canonical_request(theirs)
    value = auth.signature(auth.string_to_sign(theirs, canonical), theirs)
    assert ours.headers["authorization"].endswith(f"Signature={value}")


@pytest.mark.parametrize(("request_", "service"), REQUESTS, ids=["sagemaker", "s3"])
def test_the_server_takes_it_and_no_other(request_: Request, service: str):
    ours = signed(request_, service)
    found = verify(ours, DIGEST, lambda key: SECRET, datetime.now(UTC))
    assert found.scope.access_key == KEY
    for changed in (
        Request("DELETE", ours.path, ours.query, ours.headers),
        Request(ours.method, "/other", ours.query, ours.headers),
        Request(ours.method, ours.path, "x=2", ours.headers),
        Request(ours.method, ours.path, ours.query, {**ours.headers, "host": "b:7007"}),
    ):
        with pytest.raises(NotSigned):
            verify(changed, DIGEST, lambda key: SECRET, datetime.now(UTC))
