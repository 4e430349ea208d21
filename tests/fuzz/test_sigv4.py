"""Signed requests, changed in every way: none is taken for what was signed unless it is the same.

What a signature covers is worked out here once more, by other means than the server's.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from tests.api.raw_requests import REGION, SignedClient
from tests.fuzz.asgi import AppClient, Response, Wire
from tests.fuzz.bounded import SEED
from tests.fuzz.rounds import rounds
from trackside.api.app import App
from trackside.api.call import Call, Reply, Service
from trackside.api.identity import Iam, Sts
from trackside.api.json_service import JsonService, Operation
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.api.sessions import Sessions
from trackside.sigv4 import UNSIGNED

BUCKET = "bucket"
FORM = {"content-type": "application/x-www-form-urlencoded"}
EXEMPT = {b"x-amz-content-sha256", b"x-amz-cf-id"}
ODD = [b"", b"\xff", b"\xe9", b"%00", b"%", b"%2", b"%zz", b"\t", b" ", b"..", b"/", b"//", b"&",
       b"=", b";", b"+", b"'", b'"', b"<", b"\\", b"9" * 5000, b"-1", b"1e9", b"[",
       b"{"]  # fmt: skip


@dataclass
class Seen:
    """What got past the signature."""

    calls: list[Call] = field(default_factory=list)


class WatchedS3(S3):
    def __init__(self, root: Path, seen: Seen) -> None:
        super().__init__(root)
        self._seen = seen

    async def handle(self, call: Call) -> Reply:
        self._seen.calls.append(call)
        return await super().handle(call)


class WatchedJson(JsonService):
    def __init__(self, seen: Seen) -> None:
        read = Operation(Rights.READ, lambda call: {"Given": dict(call.params)})
        super().__init__("sagemaker", {"ListTrainingJobs": read, "StopTrainingJob": read}, _raise)
        self._seen = seen

    async def handle(self, call: Call) -> Reply:
        self._seen.calls.append(call)
        return await super().handle(call)


class WatchedSts(Sts):
    def __init__(self, sessions: Sessions, seen: Seen) -> None:
        super().__init__(sessions)
        self._seen = seen

    async def handle(self, call: Call) -> Reply:
        self._seen.calls.append(call)
        return await super().handle(call)


def _raise(error: Exception) -> Any:
    raise error


@dataclass(frozen=True)
class Location:
    client: AppClient
    caller: SignedClient
    seen: Seen

    def request(self, wire: Wire) -> tuple[Response, bool]:
        """The answer, and whether the signature was found to be right."""
        self.seen.calls.clear()
        response = self.client.request(wire)
        return response, bool(self.seen.calls)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Location]:
    keys = AccessKeys(tmp_path / "server")
    key, secret = keys.create("somebody", Rights.ADMIN)
    seen, sessions = Seen(), Sessions(keys)
    services: dict[str, Service] = {
        "s3": WatchedS3(tmp_path / "buckets", seen),
        "sagemaker": WatchedJson(seen),
        "sts": WatchedSts(sessions, seen),
        "iam": Iam(),
    }
    caller = SignedClient("http://server:7007", key.id, secret)
    with AppClient(App(services, keys, sessions=sessions)) as client:
        client.request(Wire.of(caller.signed("PUT", f"/{BUCKET}")))
        yield Location(client, caller, seen)


def originals(caller: SignedClient) -> list[Wire]:
    """Of every form that a signature has."""
    target = {"x-amz-target": "SageMaker.StopTrainingJob", "content-type": "application/x-amz-json"}
    job, form = b'{"TrainingJobName": "a"}', b"Action=GetCallerIdentity&Version=2011-06-15"
    meta = {"x-amz-meta-a": "some  text", "content-type": "a/b"}
    bound = hashlib.sha256(b"object").hexdigest()
    return [
        Wire.of(caller.signed("POST", "/", job, target, service="sagemaker"), job),
        Wire.of(caller.signed("POST", "/", form, FORM, service="sts"), form),
        Wire.of(caller.presigned("GET", f"/?{form.decode()}", service="sts", sha256=EMPTY)),
        Wire.of(caller.signed("PUT", f"/{BUCKET}/a%20b/%C3%A9~", b"object", meta), b"object"),
        Wire.of(caller.signed("PUT", f"/{BUCKET}/k", b"", {}, sha256=UNSIGNED), b"object"),
        Wire.of(caller.signed("GET", f"/{BUCKET}?list-type=2&prefix=a%2Fb&delimiter=%2F")),
        Wire.of(caller.signed("DELETE", f"/{BUCKET}/k")),
        Wire.of(caller.presigned("GET", f"/{BUCKET}/a%20b/%C3%A9~?response-expires=0")),
        Wire.of(caller.presigned("PUT", f"/{BUCKET}/k"), b"object"),
        replace(
            Wire.of(caller.presigned("PUT", f"/{BUCKET}/k", sha256=bound), b"object"),
        ).with_headers(
            [
                (b"host", caller.host.encode()),
                (b"x-amz-content-sha256", bound.encode()),
                (b"content-length", b"6"),
            ]
        ),
    ]


EMPTY = hashlib.sha256(b"").hexdigest()


def covered(wire: Wire) -> Any:
    """All that the signature of this request is about, in one form."""
    headers: dict[bytes, bytes] = {}
    for name, value in wire.headers:
        name = name.lower()
        headers[name] = headers[name] + b"," + value if name in headers else value
    pairs = [part.partition(b"=")[::2] for part in wire.query.split(b"&") if part]
    query = sorted((unquote_to_bytes(name), unquote_to_bytes(value)) for name, value in pairs)
    claimed = dict(query)
    if b"authorization" in headers:
        signed = headers[b"authorization"].partition(b"SignedHeaders=")[2].partition(b",")[0]
        claim = b"".join(headers.pop(b"authorization").split())
    else:
        signed = claimed.get(b"X-Amz-SignedHeaders", b"")
        claim = b""
    names = signed.split(b";")
    # As botocore signs them: spaces of every kind count as one, also those beyond ASCII.
    values = [(name, headers.get(name, b"").decode("latin-1").split()) for name in names]
    # The others hash the body itself.
    is_s3 = b"/s3/aws4_request" in claim + claimed.get(b"X-Amz-Credential", b"")
    # A presigned URL without the header is signed as one with UNSIGNED-PAYLOAD.
    absent = b"" if claim else UNSIGNED.encode()
    sha256 = headers.get(b"x-amz-content-sha256", absent) if is_s3 else b""
    path = unquote_to_bytes(wire.path)
    is_dated = b"x-amz-date" in headers or b"X-Amz-Date" in claimed
    date = b"" if is_dated else headers.get(b"date", b"")
    return wire.method, path, query, values, sha256, claim, date


def is_bound(wire: Wire) -> bool:
    """Whether the body is. The body of a request without one is ignored."""
    if wire.method not in ("PUT", "POST"):
        return False
    sha256 = next((v for n, v in wire.headers if n.lower() == b"x-amz-content-sha256"), b"")
    is_s3 = b"/s3/aws4_request" in unquote_to_bytes(wire.query) + b"".join(
        value for name, value in wire.headers if name.lower() == b"authorization"
    )
    return not is_s3 or (sha256 != UNSIGNED.encode() and sha256 != b"")


def unsigned_headers(wire: Wire) -> set[bytes]:
    """Those of Amazon's that the signature does not cover."""
    signed = {name for name, _ in covered(wire)[3]}
    present = {name.lower() for name, _ in wire.headers if name.lower().startswith(b"x-amz-")}
    return present - signed - EXEMPT


NOT_IMPLEMENTED = 501
"""S3's error for headers and operations that are not offered."""


# What is changed.

Change = Callable[[Random, Wire, list[Wire]], Wire]


def _altered(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(7):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at:]
        case 1:
            return data[:at] + data[at + 1 :]
        case 2:
            return data[:at] + rng.choice(ODD) + data[at:]
        case 3:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 4:  # the same to who decodes it
            piece = data[at : at + 1]
            return data[:at] + (b"%%%02X" % piece[0] if piece else b"") + data[at + 1 :]
        case 5:
            return data.swapcase()
    return data + rng.choice(ODD)


def _one_line(value: bytes) -> bytes:
    """Others do not get as far: the parser of HTTP refuses them."""
    return bytes(each for each in value if each >= 32 or each == 9)


def method(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    return replace(
        wire, method=rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "get"])
    )


def path(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    tricks = [b"/", b"//", b"/./", b"/../", b"/%2e/", b"/%2F"]
    altered = rng.choice([_altered(rng, wire.path), rng.choice(tricks) + wire.path.lstrip(b"/")])
    altered = altered.partition(b"?")[0]  # where a path ends
    return replace(wire, path=altered if altered.startswith(b"/") else b"/" + altered)


def query(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    parts = wire.query.split(b"&") if wire.query else []
    match rng.randrange(6):
        case 0 if parts:
            parts.pop(rng.randrange(len(parts)))
        case 1 if parts:
            parts.append(rng.choice(parts))
        case 2 if parts:
            rng.shuffle(parts)
        case 3:
            names = [b"uploads", b"acl", b"delete", b"versionId=x", b"X-Amz-Signature=0",
                     b"x-amz-acl=public-read", b"X-Amz-Security-Token=x", b"x=1",
                     b"Action=AssumeRole"]  # fmt: skip
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(names))
        case 4 if parts:
            at = rng.randrange(len(parts))
            parts[at] = _altered(rng, parts[at])
        case _:
            return replace(wire, query=_altered(rng, wire.query))
    return replace(wire, query=b"&".join(parts))


def header(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    headers = list(wire.headers)
    if not headers:
        return wire
    at = rng.randrange(len(headers))
    name, value = headers[at]
    match rng.randrange(6):
        case 0:
            headers.pop(at)
        case 1:
            headers.append((name, value))
        case 2:
            headers[at] = name, _one_line(_altered(rng, value))
        case 3:
            headers[at] = name.swapcase(), b"  " + value + b"\t"
        case 4:
            headers[at] = name, value.replace(b" ", b"   ")
        case _:
            headers[at] = name, _one_line(rng.choice(ODD))
    return wire.with_headers(headers)


def another_header(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    names = [b"x-amz-target", b"x-amz-copy-source", b"x-amz-acl", b"x-amz-security-token",
             b"x-amz-date", b"x-amz-content-sha256", b"date", b"x-amz-meta-b", b"range", b"host",
             b"content-encoding", b"authorization", b"x-amz-decoded-content-length", b"if-match",
             b"x-amz-trailer", b"expect", b"transfer-encoding", b"content-md5"]  # fmt: skip
    values = [b"SageMaker.ListTrainingJobs", b"bucket/k", b"public-read", b"gzip", b"bytes=0-1",
              b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", UNSIGNED.encode(), EMPTY.encode(), b"chunked",
              b"Fri, 31 Dec 9999 23:59:59 -2359", *ODD]  # fmt: skip
    added = rng.choice(names), _one_line(rng.choice(values))
    return wire.with_headers([*wire.headers, added])


def claim(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    """Its own statement about what is signed."""
    changes = [
        (REGION.encode(), b"us-east-1"), (b"/s3/", b"/sagemaker/"),
        (b"%2Fs3%2F", b"%2Fsagemaker%2F"),
        (b"/sagemaker/", b"/s3/"), (b"/sts/", b"/iam/"), (b"%2Fsts%2F", b"%2Fs3%2F"),
        (b"SignedHeaders=host;", b"SignedHeaders="), (b"SignedHeaders=", b"SignedHeaders=x;"),
        (b";x-amz-date", b""), (b";x-amz-target", b""), (b"host", b"HOST"), (b"aws4_request", b"x"),
        (b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA1"), (b"Expires=600", b"Expires=604800"),
        (b"Signature=", b"Signature=0"), (b"Credential=", b"Credential=x"), (b"Z", b""),
    ]  # fmt: skip
    old, new = rng.choice(changes)
    headers = [
        (name, value.replace(old, new) if name in (b"authorization", b"x-amz-date") else value)
        for name, value in wire.headers
    ]
    return replace(wire.with_headers(headers), query=wire.query.replace(old, new))


def body(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    altered = _altered(rng, rng.choice([wire.body, rng.choice(others).body]))
    headers = [(n, v) for n, v in wire.headers if n.lower() != b"content-length"]
    if altered:
        headers.append((b"content-length", str(len(altered)).encode()))
    return replace(wire.with_headers(headers), body=altered)


def spliced(rng: Random, wire: Wire, others: list[Wire]) -> Wire:
    """With something of another request that was signed, too."""
    other = rng.choice(others)
    match rng.randrange(4):
        case 0:
            return replace(wire, query=other.query)
        case 1:
            return replace(wire, path=other.path)
        case 2:
            return replace(wire, body=other.body)
    names = {name for name, _ in other.headers}
    kept = [each for each in wire.headers if each[0] not in names]
    return wire.with_headers([*kept, *other.headers])


CHANGES: list[Change] = [method, path, query, header, another_header, claim, body, spliced]


def test_every_original_request_is_accepted(place):
    for wire in originals(place.caller):
        response, is_let_in = place.request(wire)
        assert (is_let_in, response.status < 300) == (True, True), (wire, response)


def test_no_mutation_is_accepted_and_none_breaks_the_server(place):
    rng = Random(f"{SEED}/signatures")
    wires = originals(place.caller)
    kinds = dict.fromkeys((change.__name__ for change in CHANGES), 0)
    for _ in range(rounds(3000)):
        wire = original = rng.choice(wires)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            change = rng.choice(CHANGES)
            wire = change(rng, wire, wires)
            kinds[change.__name__] += 1
        response, is_let_in = place.request(wire)
        assert response.status < 500 or response.status == NOT_IMPLEMENTED, (wire, response)
        if is_let_in:
            assert covered(wire) in [covered(each) for each in wires], (original, wire)
            assert not unsigned_headers(wire), wire
            signed_body = [each.body for each in wires if covered(each) == covered(wire)]
            is_same = wire.body in signed_body
            assert is_same or not is_bound(wire) or response.status >= 400, (
                original,
                wire,
                response,
            )
    assert all(kinds.values())
