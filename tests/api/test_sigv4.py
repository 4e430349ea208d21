"""Requests signed by botocore, the code every client uses, and then tampered with."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from trackside import sigv4
from trackside.api.sigv4 import NotSigned, Refusal, scope_of, verify
from trackside.sigv4 import Request, Scope

KEY, SECRET = "AKIATEST", "very/secret+key"
CREDENTIALS = Credentials(KEY, SECRET)


def signed(
    signer: Callable[..., Any],
    method: str,
    url: str,
    *,
    service: str = "sagemaker",
    data: bytes = b"",
    headers: dict[str, str] | None = None,
) -> Request:
    request = AWSRequest(method, url, data=data, headers=headers or {})
    request.headers["Host"] = urlsplit(url).netloc
    arguments = {"expires": 60} if signer is S3SigV4QueryAuth else {}
    signer(CREDENTIALS, service, "eu-central-1", **arguments).add_auth(request)
    sent = urlsplit(request.url)
    names = {name.lower(): str(value) for name, value in request.headers.items()}
    return Request(method, sent.path or "/", sent.query, names)


def check(
    request: Request, payload: bytes | None = b"", *, after: timedelta = timedelta()
) -> sigv4.Signature:
    """Without a payload, as S3 does: against the hash that the request announces."""
    sha = None if payload is None else hashlib.sha256(payload).hexdigest()
    return verify(request, sha, {KEY: SECRET}.get, datetime.now(UTC) + after)


def refusal(request: Request, payload: bytes | None = b"", **when: Any) -> Refusal:
    with pytest.raises(NotSigned) as caught:
        check(request, payload, **when)
    return caught.value.refusal


def with_headers(request: Request, headers: dict[str, str]) -> Request:
    return replace(request, headers={**request.headers, **headers})


def json_call(body: bytes = b'{"TrainingJobName": "a"}') -> Request:
    return signed(
        SigV4Auth,
        "POST",
        "http://127.0.0.1:7007/",
        data=body,
        headers={"X-Amz-Target": "SageMaker.DescribeTrainingJob", "Content-Type": "a  b"},
    )


def test_a_json_call_is_verified_and_its_scope_returned():
    body = b'{"TrainingJobName": "a"}'
    found = check(json_call(body), body)
    assert found.scope == Scope(KEY, found.timestamp[:8], "eu-central-1", "sagemaker")


S3_ADDRESSES = [
    "http://h/bucket/plain",
    "http://h/bucket/a%20b%2Bc/%C3%A4~-_.%21%2A%27%28%29",
    "http://h/bucket//double//slash/",
    "http://h/bucket?list-type=2&prefix=a%2Fb%20c&start-after=%2B&delimiter=%2F",
    "http://h/bucket/key?uploads",
    "http://h/bucket/key?uploadId=x%3D%3D&partNumber=2",
    "http://h/",
]


@pytest.mark.parametrize("url", S3_ADDRESSES)
def test_s3_calls_are_verified_whatever_is_in_the_key(url):
    check(signed(S3SigV4Auth, "GET", url, service="s3"), None)


@pytest.mark.parametrize("url", S3_ADDRESSES)
def test_presigned_addresses_are_verified(url):
    request = signed(S3SigV4QueryAuth, "GET", url, service="s3")
    assert scope_of(request) == check(request, None).scope


@given(
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1).filter(lambda t: "\0" not in t)
)
def test_any_key_a_client_can_name_is_verified(name):
    url = f"http://h/bucket/{quote(name, safe='/~')}"
    if urlsplit(url).path.rstrip("/").split("/")[-1] in (".", ".."):
        return
    check(signed(S3SigV4Auth, "PUT", url, service="s3", data=b"x"), None)


TAMPERINGS: dict[str, Callable[[Request], Request]] = {
    "method": lambda r: replace(r, method="DELETE"),
    "path": lambda r: replace(r, path="/other"),
    "query": lambda r: replace(r, query="x=1"),
    "header": lambda r: with_headers(r, {"x-amz-target": "SageMaker.Stop"}),
    "lost header": lambda r: replace(
        r, headers={k: v for k, v in r.headers.items() if k != "x-amz-target"}
    ),
    "scope": lambda r: with_headers(
        r, {"authorization": r.headers["authorization"].replace("eu-central-1", "us-east-1")}
    ),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_request_that_was_changed_on_the_way_is_refused(what):
    body = b"{}"
    assert refusal(TAMPERINGS[what](json_call(body)), body) is Refusal.MISMATCH


def test_another_body_is_refused():
    assert refusal(json_call(b"{}"), b"{ }") is Refusal.MISMATCH


def test_an_unknown_key_is_refused():
    request = json_call(b"")
    with pytest.raises(NotSigned) as caught:
        verify(request, sigv4.EMPTY_SHA256, lambda key: None, datetime.now(UTC))
    assert caught.value.refusal is Refusal.UNKNOWN_KEY


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_clock_that_is_minutes_off_is_refused(minutes):
    assert refusal(json_call(b""), after=timedelta(minutes=minutes)) is Refusal.SKEWED


def test_s3_allows_a_quarter_of_an_hour():
    request = signed(S3SigV4Auth, "GET", "http://h/b/k", service="s3")
    check(request, None, after=timedelta(minutes=14))
    assert refusal(request, None, after=timedelta(minutes=16)) is Refusal.SKEWED


def test_a_presigned_address_ends():
    request = signed(S3SigV4QueryAuth, "GET", "http://h/b/k", service="s3")
    check(request, None, after=timedelta(seconds=20))
    assert refusal(request, None, after=timedelta(seconds=70)) is Refusal.EXPIRED


def test_unsigned_and_malformed_requests_are_different_errors():
    assert refusal(Request("GET", "/", "", {"host": "h"})) is Refusal.MISSING
    garbled = Request("GET", "/", "", {"authorization": "AWS4-HMAC-SHA256 Credential=x"})
    assert refusal(garbled) is Refusal.MALFORMED
    garbled_address = Request("GET", "/", "X-Amz-Signature=1", {})
    assert refusal(garbled_address) is Refusal.MALFORMED_ADDRESS
    assert scope_of(garbled) is None


def test_yesterdays_scope_is_refused_though_the_time_stamp_is_fresh():
    request = json_call(b"")
    forged = re.sub(r"/\d{8}/", "/20200101/", request.headers["authorization"])
    assert refusal(with_headers(request, {"authorization": forged})) is Refusal.MISMATCH


def s3_call(method: str = "PUT") -> Request:
    return signed(S3SigV4Auth, method, "http://h/b/k", service="s3", data=b"x")


def s3_address(method: str = "PUT", query: str = "") -> Request:
    return signed(S3SigV4QueryAuth, method, f"http://h/b/k{query}", service="s3")


@pytest.mark.parametrize("made", [s3_call, s3_address])
@pytest.mark.parametrize("name", ["x-amz-copy-source", "x-amz-acl", "x-amz-target", "x-amz-meta-a"])
def test_a_header_of_amazons_that_is_not_signed_is_refused(made, name):
    check(made(), None)
    assert refusal(with_headers(made(), {name: "x"}), None) is Refusal.UNSIGNED_HEADERS


@pytest.mark.parametrize("name", ["range", "content-type", "x-amzn-trace-id", "x-amz-cf-id"])
def test_headers_that_clients_and_proxies_add_need_no_signature(name):
    for request in (s3_call(), s3_address()):
        check(with_headers(request, {name: "x"}), None)


def test_a_signature_that_does_not_cover_the_host_is_refused():
    request = Request("GET", "/b/k", "", {"host": "h", "x-amz-content-sha256": sigv4.UNSIGNED})
    now = datetime.now(UTC)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    scope = Scope(KEY, stamp[:8], "r", "s3")
    names = ("x-amz-content-sha256", "x-amz-date")
    request = with_headers(request, {"x-amz-date": stamp})
    value = sigv4.signature_of(request, sigv4.UNSIGNED, names, scope, stamp, SECRET).value
    header = (
        f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={value}"
    )
    request = with_headers(request, {"authorization": header})
    assert refusal(request, None) is Refusal.UNSIGNED_HEADERS


def test_the_hash_of_a_body_is_bound_though_its_header_is_not_signed():
    request = with_headers(s3_address(), {"x-amz-content-sha256": hashlib.sha256(b"").hexdigest()})
    assert refusal(request, None) is Refusal.MISMATCH
    check(with_headers(s3_address(), {"x-amz-content-sha256": sigv4.UNSIGNED}), None)


def test_s3_requires_the_hash_of_a_body():
    request = signed(SigV4Auth, "PUT", "http://h/b/k", service="s3")
    assert "x-amz-content-sha256" not in request.headers
    assert refusal(request, None) is Refusal.NO_PAYLOAD_HASH


def test_a_request_is_signed_once():
    address = s3_address()
    both = with_headers(address, {"authorization": s3_call().headers["authorization"]})
    assert refusal(both, None) is Refusal.SIGNED_TWICE
    hidden = replace(s3_call(), query="X-A%6D%7A-Signature=1")
    assert refusal(hidden, None) is Refusal.SIGNED_TWICE
    twice = replace(address, query=f"{address.query}&x-amz-signature=1")
    assert refusal(twice, None) is Refusal.MALFORMED_ADDRESS


@pytest.mark.parametrize("service", ["sagemaker", "logs", "monitoring", "iam"])
def test_only_s3_and_sts_take_presigned_addresses(service):
    address = signed(S3SigV4QueryAuth, "GET", "http://h/?Action=GetRole", service=service)
    assert refusal(address) is Refusal.MALFORMED_ADDRESS
    assert scope_of(address) is None


GARBLED = {
    "a signature outside ASCII": ("X-Amz-Signature=", "X-Amz-Signature=%C3%A9"),
    "a region outside UTF-8": ("%2Feu-central-1%2F", "%2F%FF%2F"),
    "a region of spaces": ("%2Feu-central-1%2F", "%2F%20%2F"),
    "no end": ("X-Amz-Expires=60", "X-Amz-Expires="),
    "an end of many digits": ("X-Amz-Expires=60", "X-Amz-Expires=" + "9" * 5000),
    "an end in other digits": ("X-Amz-Expires=60", "X-Amz-Expires=%D9%A6"),
}


@pytest.mark.parametrize("what", GARBLED)
def test_a_garbled_address_is_refused_as_one(what):
    address = s3_address()
    garbled = replace(address, query=address.query.replace(*GARBLED[what]))
    assert garbled != address
    assert refusal(garbled, None) in (Refusal.MALFORMED_ADDRESS, Refusal.MALFORMED)


@pytest.mark.parametrize("date", ["Fri, 31 Dec 9999 23:59:59 -2359", "Sat, 01 Jan 0001 00:00:00 Z"])
def test_dates_at_the_ends_of_time_are_refused(date):
    headers = {name: value for name, value in s3_call().headers.items() if name != "x-amz-date"}
    request = replace(s3_call(), headers={**headers, "date": date})
    assert refusal(request, None) in (Refusal.MALFORMED, Refusal.MISMATCH, Refusal.SKEWED)
