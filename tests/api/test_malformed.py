"""Requests that no client sends: each is refused as its sender's fault, in the service's form."""

import base64
import json
import socket
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.conftest import Server
from tests.api.raw_requests import SignedClient, send
from trackside.api import tokens
from trackside.sigv4 import Request

BUCKET = "bucket"
MANY = "9" * 5000
DEEP = b"[" * 100_000
TARGETS = {
    "sagemaker": "SageMaker",
    "logs": "Logs_20140328",
    "monitoring": "GraniteServiceVersion20100801",
}
FORM = {"content-type": "application/x-www-form-urlencoded"}
GROUP = {"logGroupName": "/aws/sagemaker/TrainingJobs"}


@pytest.fixture
def caller(service: Server) -> Iterator[SignedClient]:
    """Ends with a request that is right: nothing before it has left the server worse."""
    caller = SignedClient(service.url, service.key_id, service.secret)
    assert caller.request("PUT", f"/{BUCKET}")[0] == 200
    assert caller.request("PUT", f"/{BUCKET}/k", b"0123456789")[0] == 200
    yield caller
    assert caller.request("GET", f"/{BUCKET}/k") == (200, b"0123456789")


def check_xml(response: tuple[int, bytes], *codes: str) -> None:
    status, body = response
    assert 400 <= status < 500, body
    code = ET.fromstring(body).find(".//Code")
    assert code is not None
    assert code.text in codes, body


def check_json(response: tuple[int, bytes], *codes: str) -> None:
    status, body = response
    assert 400 <= status < 500, body
    assert json.loads(body)["__type"] in codes, body


def call(
    caller: SignedClient, service: str, operation: str, body: bytes | Any
) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"x-amz-target": f"{TARGETS[service]}.{operation}", "content-type": "a/json"}
    return caller.request("POST", "/", data, headers, service=service)


def with_query(request: Request, old: str, new: str) -> Request:
    assert old in request.query
    return replace(request, query=request.query.replace(old, new))


def test_addresses_that_cannot_be_read(caller):
    good = caller.presigned("GET", f"/{BUCKET}/k")
    assert send(caller.url, good)[0] == 200
    garbled = ("AuthorizationQueryParametersError", "AuthorizationHeaderMalformed")
    for old, new in (
        ("X-Amz-Signature=", "X-Amz-Signature=%C3%A9"),
        ("X-Amz-Signature=", "X-Amz-Signature=%FF"),
        ("%2Feu-central-1%2F", "%2F%FF%2F"),
        ("%2Feu-central-1%2F", "%2F%C3%A9%2F"),
        ("X-Amz-Expires=600", f"X-Amz-Expires={MANY}"),
        ("X-Amz-SignedHeaders=host", "X-Amz-Nothing=host"),
    ):
        check_xml(send(caller.url, with_query(good, old, new)), *garbled)
    for date in ("99991231T235959Z", "00010101T000000Z", "20261301T000000Z", "%D9%A6"):
        altered = with_query(good, "X-Amz-Date=", f"X-Amz-Date={date}&x=")
        check_xml(send(caller.url, altered), *garbled, "SignatureDoesNotMatch")


def test_headers_that_cannot_be_read(caller):
    good = caller.signed("GET", f"/{BUCKET}/k")
    right = good.headers["authorization"]
    for authorization in (
        right.replace("/eu-central-1/", "/\xff\xe9/"),
        right.replace("Signature=", "Signature=\xe9"),
        right.replace("SignedHeaders=", "SignedHeaders=\xe9;"),
        "AWS4-HMAC-SHA256 Credential=" + "/" * 3000,
        right + ", Signature=" + "0" * 64,
    ):
        altered = replace(good, headers={**good.headers, "authorization": authorization})
        check_xml(
            send(caller.url, altered), "AuthorizationHeaderMalformed", "SignatureDoesNotMatch"
        )
    undated = {name: value for name, value in good.headers.items() if name != "x-amz-date"}
    for date in ("Fri, 31 Dec 9999 23:59:59 -2359", "Sat, 01 Jan 0001 00:00:00 +2359", "\xe9", "1"):
        altered = replace(good, headers={**undated, "date": date})
        codes = "AuthorizationHeaderMalformed", "SignatureDoesNotMatch", "RequestTimeTooSkewed"
        check_xml(send(caller.url, altered), *codes)


@pytest.mark.parametrize(
    ("method", "address", "headers"),
    [
        ("GET", f"/{BUCKET}?max-keys={MANY}", {}),
        ("GET", f"/{BUCKET}?max-keys=%D9%A6", {}),
        ("GET", f"/{BUCKET}/k?partNumber={MANY}", {}),
        ("PUT", f"/{BUCKET}/k?partNumber={MANY}&uploadId=x", {}),
        ("PUT", f"/{BUCKET}/n", {"x-amz-decoded-content-length": MANY,
                                 "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}),
        ("GET", f"/{BUCKET}/k?response-content-disposition=%E2%82%AC", {}),
        ("GET", f"/{BUCKET}/k?response-content-type=a%0D%0Ax-evil:%201", {}),
        ("GET", f"/{BUCKET}/k?response-expires=%FF%FE", {}),
        ("GET", f"/{BUCKET}?list-type=2&continuation-token=%C3%A9", {}),
        ("GET", f"/{BUCKET}?list-type=2&continuation-token=AAAA%FF", {}),
        ("GET", f"/{BUCKET}?encoding-type=%FF", {}),
        ("GET", "/%FF", {}),
        ("GET", "/..", {}),
        ("GET", "/%2e%2e/x", {}),
        ("GET", f"/{BUCKET}/%00", {}),
        ("PUT", f"/{BUCKET}/n", {"x-amz-copy-source": "%FF/%00"}),
        ("PUT", f"/{BUCKET}/n", {"x-amz-copy-source": "/"}),
        ("PUT", f"/{BUCKET}/n", {"x-amz-checksum-crc32": "\xe9"}),
        ("PUT", f"/{BUCKET}/n", {"content-md5": "\xe9"}),
        ("PUT", f"/{BUCKET}/n", {"x-amz-sdk-checksum-algorithm": "\xe9"}),
        ("POST", f"/{BUCKET}/n?uploads", {"x-amz-checksum-algorithm": "x"}),
        ("POST", f"/{BUCKET}?delete", {}),
        ("PATCH", f"/{BUCKET}/k", {}),
    ],
)  # fmt: skip
def test_malformed_s3_requests(caller, method, address, headers):
    sha256 = headers.get("x-amz-content-sha256")
    request = caller.signed(method, address, b"", headers, sha256=sha256)
    request = replace(request, headers={**request.headers, "content-length": "0"})
    status, body = send(caller.url, request)
    assert 400 <= status < 500, body
    assert body.startswith(b"<?xml")


@pytest.mark.parametrize("last", ["9" * 19, "9" * 20, MANY])
def test_a_range_may_end_anywhere(caller, last):
    assert caller.request("GET", f"/{BUCKET}/k", headers={"range": f"bytes=5-{last}"}) == (
        206,
        b"56789",
    )
    assert caller.request("GET", f"/{BUCKET}/k", headers={"range": f"bytes={last}-"})[0] == 416


def test_dates_of_conditions_may_be_any(caller):
    for date in ("Fri, 31 Dec 9999 23:59:59 -2359", "Sat, 01 Jan 0001 00:00:00 +2359", "x", "\xe9"):
        headers = {"if-unmodified-since": date}
        assert caller.request("GET", f"/{BUCKET}/k", headers=headers)[0] in (200, 412)


DOCUMENTS = {
    "no XML": b"<Delete>",
    "no encoding": b'<?xml version="1.0" encoding="nope"?><Delete/>',
    "an entity": b'<!DOCTYPE d [<!ENTITY a "x">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    "too many elements": b"<Delete>" + b"<a/>" * 200_000 + b"</Delete>",
    "too many levels": b"<a>" * 100_000,
    "a large tag": b"<Delete " + b"a" * 500_000 + b"='1'/>",
    "many attributes": b"<Delete " + b" ".join(b"a%d=''" % n for n in range(1000)) + b"/>",
    "another document": b"<Other/>",
    "nothing": b"",
    "a number of many digits": b"<CompleteMultipartUpload><Part><PartNumber>" + MANY.encode()
    + b"</PartNumber></Part></CompleteMultipartUpload>",
}  # fmt: skip


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_that_are_none_of_s3s(caller, what):
    check_xml(caller.request("POST", f"/{BUCKET}?delete", DOCUMENTS[what]), "MalformedXML")
    check_xml(caller.request("PUT", f"/{BUCKET}/k?tagging", DOCUMENTS[what]), "MalformedXML")
    status, body = caller.request("POST", f"/{BUCKET}/n?uploads")
    assert status == 200
    upload = ET.fromstring(body).find("{*}UploadId")
    assert upload is not None
    address = f"/{BUCKET}/n?uploadId={upload.text}"
    check_xml(caller.request("POST", address, DOCUMENTS[what]), "MalformedXML")


def test_a_region_that_no_header_can_hold_is_refused(caller):
    for region in ("a\r\nb", "\u20ac", "x" * 100):
        inner = f"<LocationConstraint>{region}</LocationConstraint>"
        document = f"<CreateBucketConfiguration>{inner}</CreateBucketConfiguration>".encode()
        check_xml(caller.request("PUT", "/another", document), "InvalidLocationConstraint")


def test_a_document_without_end_is_cut_off(caller):
    """Its length is not announced; it is not held until there is no memory left."""
    request = caller.signed("POST", f"/{BUCKET}?delete", sha256="UNSIGNED-PAYLOAD")
    lines = [f"POST /{BUCKET}?delete HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    head = "\r\n".join([*lines, "transfer-encoding: chunked", "\r\n"]).encode()
    parts = urlsplit(caller.url)
    piece = b"%x\r\n%b\r\n" % (1 << 16, b" " * (1 << 16))
    with socket.create_connection((parts.hostname, parts.port), 60) as connection:
        connection.sendall(head)
        sent, response = 0, b""
        connection.setblocking(False)
        while not response and sent < 64 << 20:
            with suppress(BlockingIOError, ConnectionError):
                sent += connection.send(piece[sent % len(piece) :])
            with suppress(BlockingIOError):
                response += connection.recv(1 << 16)
    assert response.startswith(b"HTTP/1.1 400")
    assert b"<Code>MalformedXML</Code>" in response
    assert sent < 32 << 20


BODIES: Mapping[str, bytes] = {
    "deep lists": DEEP,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep and right": b'{"NameContains":' + b"[" * 200 + b"]" * 200 + b"}",
    "many digits": b'{"MaxResults": %b}' % MANY.encode(),
    "more than 64 bits": b'{"MaxResults": 9223372036854775808}',
    "no number": b'{"MaxResults": NaN}',
    "endless": b'{"MaxResults": 1e999}',
    "half a pair": b'{"NameContains": "\\ud800"}',
    "a name of half a pair": b'{"\\udfff": 1}',
    "not UTF-8": b'{"NameContains": "\xff"}',
    "UTF-16": '{"MaxResults": 1}'.encode("utf-16"),
    "a list": b"[]",
    "a text": b'"x"',
    "nothing closed": b'{"a": [1, 2',
}


@pytest.mark.parametrize("what", BODIES)
def test_json_that_is_none(caller, what):
    for service, operation in (
        ("sagemaker", "ListTrainingJobs"),
        ("logs", "DescribeLogGroups"),
        ("monitoring", "ListMetrics"),
    ):
        check_json(call(caller, service, operation, BODIES[what]), "SerializationException")


LISTINGS: list[tuple[str, str, dict[str, Any], str]] = [
    ("sagemaker", "ListTrainingJobs", {}, "NextToken"),
    ("sagemaker", "ListTrainingJobs", {"SortBy": "Name"}, "NextToken"),
    ("sagemaker", "ListTrainingJobs", {"SortBy": "Status"}, "NextToken"),
    ("sagemaker", "ListProcessingJobs", {}, "NextToken"),
    ("sagemaker", "Search", {"Resource": "TrainingJob"}, "NextToken"),
    ("sagemaker", "Search", {"Resource": "TrainingJob", "SortBy": "Metrics.x"}, "NextToken"),
    ("logs", "DescribeLogGroups", {}, "nextToken"),
    ("logs", "DescribeLogStreams", GROUP, "nextToken"),
    ("logs", "DescribeLogStreams", {**GROUP, "orderBy": "LastEventTime"}, "nextToken"),
    ("logs", "FilterLogEvents", GROUP, "nextToken"),
    ("monitoring", "ListMetrics", {}, "NextToken"),
]
FORGED_POSITIONS: list[Any] = [
    None, -1, 2**62, 1.5, "x", True, {}, [], [1], ["x"], [None], [None, None], [None, -1],
    [None, 2**62], [["x"], 0], [[1, 2], 0], [{}, 0], [1, "\0"], [1.0, 2.0], [1, "x"],
    ["x", 1, "y"], [True], [True, "x"], [1, 2, 3, 4, 5], [[[[]]]],
]  # fmt: skip


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda each: f"{each[1]} {sorted(each[2])}")
def test_a_forged_position_in_a_listing(caller, listing):
    service, operation, given, member = listing
    places = [tokens.token(given, place) for place in FORGED_POSITIONS]
    nested = json.dumps(["0" * 16, 0])[:-2] + "[" * 5000
    others = ["", "x", "\u20ac", base64.urlsafe_b64encode(nested.encode()).decode(), "A" * 10_000]
    for forged in [*places, *others]:
        status, body = call(caller, service, operation, {**given, member: forged})
        assert status < 500, (forged, body)


def test_a_forged_position_in_a_log(caller):
    stream = {"logGroupName": "mine", "logStreamName": "one"}
    event = {"timestamp": int(time.time() * 1000), "message": "a line"}
    assert call(caller, "logs", "CreateLogGroup", {"logGroupName": "mine"})[0] == 200
    assert call(caller, "logs", "CreateLogStream", stream)[0] == 200
    assert call(caller, "logs", "PutLogEvents", {**stream, "logEvents": [event]})[0] == 200
    assert b"a line" in call(caller, "logs", "GetLogEvents", stream)[1]
    for token in ("f/" + "9" * 56, "b/" + "9" * 56, "f/" + "\u0666" * 56, "f/", "x"):
        response = call(caller, "logs", "GetLogEvents", {**stream, "nextToken": token})
        check_json(response, "InvalidParameterException")
    for token in ("f/" + "0" * 56, "b/" + "0" * 56, "f/00000009" + "4" * 18 + "0" * 30):
        assert call(caller, "logs", "GetLogEvents", {**stream, "nextToken": token})[0] < 500


@pytest.mark.parametrize(
    "form",
    [
        f"Action=AssumeRole&RoleArn=arn:aws:iam::0:role/x&RoleSessionName=xy&DurationSeconds={MANY}",
        "Action=AssumeRole&RoleArn=arn:aws:iam::0:role/x&RoleSessionName=xy&DurationSeconds=%D9%A6",
        "Action=%FF%00",
        "",
        "Action=GetRole",
    ],
)  # fmt: skip
def test_forms_of_sts_that_are_none(caller, form):
    codes = "ValidationError", "UnknownOperationException"
    check_xml(caller.request("POST", "/", form.encode(), FORM, service="sts"), *codes)


@pytest.mark.parametrize(
    "member",
    [
        f"Period={MANY}",
        "StartTime=99999-01-01T00:00:00Z",
        "StartTime=0001-01-01T00:00:00%2B23:59",
        "Statistics.member.1" + ".a" * 5000 + "=1",
        "Statistics=1&Statistics.member.1=2",
        "Dimensions.member.%D9%A1.Name=x",
        "MetricName=%01%FF",
    ],
)
def test_forms_of_cloudwatch_that_are_none(caller, member):
    form = f"Action=GetMetricStatistics&Namespace=x&{member}"
    codes = "MalformedInput", "InvalidParameterValue", "InvalidParameterCombination"
    check_xml(caller.request("POST", "/", form.encode(), FORM, service="monitoring"), *codes)


def test_operations_of_another_service(caller):
    for service in ("", " ", "S3", "s3/x", "sagemaker "):
        request = caller.signed("GET", f"/{BUCKET}/k", service=service)
        assert 400 <= send(caller.url, request)[0] < 500
    headers = {"x-amz-target": "Logs_20140328.DescribeLogGroups"}
    response = caller.request("POST", "/", b"{}", headers, service="sagemaker")
    check_json(response, "UnknownOperationException")
    check_xml(caller.request("POST", f"/{BUCKET}", b"", headers), "UnknownOperationException")
