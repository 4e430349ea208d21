"""Requests passed on to another store. The other tests here run through a relay, too: these are
about what only a relay can do wrong, with moto's server and with stores that misbehave."""

import http.client
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.api.raw_requests import SignedClient
from tests.api.s3.conftest import REGION, S3Endpoint, listening, serving
from tests.api.s3.test_object_calls import refused
from tests.conftest import S3Server
from tests.kept_port import kept_port, port_of
from tests.storage.test_instance_credentials import KeyGiver, given
from tests.wait import until
from trackside.api.app import App
from trackside.api.call import Call
from trackside.api.keys import AccessKey, AccessKeys, Rights
from trackside.api.s3 import upstream_connection
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.relay import S3Relay
from trackside.api.s3.required_rights import needed_rights
from trackside.api.s3.service import S3, operations
from trackside.api.s3.target import read_target
from trackside.api.s3.threads import Threads
from trackside.api.server import listen
from trackside.api.services import Services
from trackside.errors import InvalidSetting
from trackside.settings import Settings
from trackside.sigv4 import Request, Scope, Signature
from trackside.storage.credentials import S3Access

MIB = 1 << 20
LOOPBACK = ip_address("127.0.0.1")
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: "1"\r\n\r\nok'


class RawStore:
    """Responds as a test defines; records the heads of all requests and counts connections."""

    def __init__(self, response: Callable[[socket.socket, bytes], bool]) -> None:
        self.heads: list[bytes] = []
        self.num_connections = 0
        self._answer = response
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.access = S3Access(
            f"http://127.0.0.1:{self._listener.getsockname()[1]}", "us-east-1", "key", "secret"
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.num_connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while head := _head(connection):
                self.heads.append(head)
                if not self._answer(connection, head):
                    return


def _head(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        try:
            piece = connection.recv(1)
        except OSError:
            return b""
        if not piece:
            return b""
        data += piece
    return data


def respond_with(response: bytes, *, more: bool = True) -> Callable[[socket.socket, bytes], bool]:
    def respond(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(response)
        return more

    return respond


@contextmanager
def relay_to(
    tmp_path: Path, response: Callable[[socket.socket, bytes], bool]
) -> Iterator[tuple[RawStore, S3Endpoint]]:
    store = RawStore(response)
    with serving(S3Relay(store.access), tmp_path) as front:
        yield store, front
    store.close()


@pytest.fixture
def moto(s3_server: S3Server, bucket: str, tmp_path: Path) -> Iterator[tuple[S3Endpoint, str]]:
    access = S3Access(s3_server.url, "us-east-1", "test-access-key", "test-secret-key")
    with serving(S3Relay(access), tmp_path) as front:
        yield front, bucket


def test_motos_server_works_as_a_store(moto):
    front, bucket = moto
    s3 = front.client()
    data = os.urandom(11 * MIB)
    s3.put_object(Bucket=bucket, Key="é a+b", Body=data, Metadata={"x": "1"}, ContentType="a/b")
    got = s3.get_object(Bucket=bucket, Key="é a+b")
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (data, {"x": "1"}, "a/b")
    part = s3.get_object(Bucket=bucket, Key="é a+b", Range="bytes=5-9")
    assert (part["Body"].read(), part["ResponseMetadata"]["HTTPStatusCode"]) == (data[5:10], 206)
    made = s3.create_multipart_upload(Bucket=bucket, Key="big")
    upload = {"Bucket": bucket, "Key": "big", "UploadId": made["UploadId"]}
    etags = [
        s3.upload_part(**upload, PartNumber=number, Body=piece)["ETag"]
        for number, piece in enumerate([data[: 6 * MIB], data[6 * MIB :]], 1)
    ]
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == data
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == ["big", "é a+b"]
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "big"}, {"Key": "é a+b"}]})
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_presigned_url_works_through_the_relay(moto):
    front, bucket = moto
    given = {"Bucket": bucket, "Key": "k k"}
    address = front.client().generate_presigned_url("put_object", given)
    put(address, b"1" * 100_000)
    address = front.client().generate_presigned_url("get_object", given)
    with urllib.request.urlopen(address, timeout=60) as got:
        assert got.read() == b"1" * 100_000


def test_a_body_that_is_not_what_was_signed_never_gets_there_whole(moto):
    """moto checks nothing, so that it is ours to find out."""
    front, bucket = moto
    s3 = front.client()

    def change(request, **_):
        request.data = request.body = b"x" * 300_000
        request.headers["Content-Length"] = "300000"

    s3.meta.events.register("before-send.s3.PutObject", change)
    given = {"Bucket": bucket, "Key": "k", "Body": b"y" * 300_000}
    assert refused(s3.put_object, **given) == ("XAmzContentSHA256Mismatch", 400)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_stores_error_is_returned_unchanged(tmp_path):
    body = b"<Error><Code>Peculiar</Code><Message>its own words</Message></Error>"
    response = b"HTTP/1.1 418 Teapot\r\nX-Amz-Request-Id: theirs\r\nContent-Length: %d\r\n\r\n%b"
    with relay_to(tmp_path, respond_with(response % (len(body), body))) as (_, front):
        address = front.client().generate_presigned_url("get_object", {"Bucket": "b1x", "Key": "k"})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(address, timeout=60)
        assert (caught.value.status, caught.value.read()) == (418, body)
        assert caught.value.headers["x-amz-request-id"] == "theirs"
        caught.value.close()


def test_an_unavailable_store_is_reported_with_a_retry_time(tmp_path):
    with kept_port() as nobody, serving(S3Relay(access_at(nobody)), tmp_path) as front:
        s3 = front.client()
        for call in (s3.list_buckets, lambda: s3.put_object(Bucket="b1x", Key="k", Body=b"1")):
            assert refused(call) == ("ServiceUnavailable", 503)
        address = s3.generate_presigned_url("get_object", {"Bucket": "b1x", "Key": "k"})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(address, timeout=60)
        assert caught.value.headers["retry-after"] == "2"
        caught.value.close()


def test_connections_to_the_store_are_reused(tmp_path):
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        s3 = front.client()
        for _ in range(5):
            assert s3.get_object(Bucket="b1x", Key="k")["Body"].read() == b"ok"
        assert (len(store.heads), store.num_connections) == (5, 1)


def test_an_idle_connection_that_the_store_has_closed_is_replaced(tmp_path):
    with relay_to(tmp_path, respond_with(OK, more=False)) as (store, front):
        s3 = front.client()
        for _ in range(5):
            assert s3.get_object(Bucket="b1x", Key="k")["Body"].read() == b"ok"
        assert store.num_connections == 5


def test_a_truncated_response_does_not_look_complete(tmp_path):
    begun = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" + b"5\r\nabcde\r\n"
    for form in (b"Transfer-Encoding: chunked", b"Content-Length: 100000"):
        with relay_to(tmp_path, respond_with(begun % form, more=False)) as (_, front):
            address = front.client().generate_presigned_url(
                "get_object", {"Bucket": "b1x", "Key": "k"}
            )
            with (
                pytest.raises(http.client.IncompleteRead),
                urllib.request.urlopen(address, timeout=60) as response,
            ):
                response.read()


def test_a_body_that_the_store_refuses_at_once_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(upstream_connection, "_CONTINUE_SECONDS", 60.0)
    refusal = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
    with relay_to(tmp_path, respond_with(refusal)) as (store, front):
        with start_put(front, 10 * MIB, expects=True) as connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 403")
        assert b"100-continue" in store.heads[0]


def test_neither_side_is_sent_more_than_it_reads(tmp_path):
    """The store takes nothing of a body, then the client nothing of an answer."""
    sent = 0

    def response(connection: socket.socket, head: bytes) -> bool:
        nonlocal sent
        if head.startswith(b"PUT"):
            return not done.wait(120)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 * MIB))
        sent = until_stuck(connection, 256 * MIB)
        return False

    done = threading.Event()
    with relay_to(tmp_path, response) as (_, front):
        with start_put(front, 256 * MIB) as connection:
            assert until_stuck(connection, 256 * MIB) < 64 * MIB
        done.set()
        given = {"Bucket": "b1x", "Key": "k"}
        address = urlsplit(front.client().generate_presigned_url("get_object", given))
        with socket.create_connection((address.hostname, address.port), 60) as connection:
            line = f"GET {address.path}?{address.query} HTTP/1.1"
            connection.sendall(f"{line}\r\nHost: {address.netloc}\r\n\r\n".encode())
            assert 0 < until(lambda: sent) < 64 * MIB


def until_stuck(connection: socket.socket, most: int) -> int:
    """How many bytes were sent before none was accepted for a second."""
    connection.settimeout(1)
    total = 0
    try:
        while total < most:
            total += connection.send(bytes(MIB))
    except TimeoutError:
        pass
    return total


def start_put(front: S3Endpoint, size: int, *, expects: bool = False) -> socket.socket:
    given = {"Bucket": "b1x", "Key": "k"}
    address = urlsplit(front.client().generate_presigned_url("put_object", given))
    connection = socket.create_connection((address.hostname, address.port), 60)
    lines = [
        f"PUT {address.path}?{address.query} HTTP/1.1",
        f"Host: {address.netloc}",
        f"Content-Length: {size}",
        *(["Expect: 100-continue"] if expects else []),
        "\r\n",
    ]
    connection.sendall("\r\n".join(lines).encode())
    return connection


def test_headers_for_this_server_do_not_reach_the_store(tmp_path):
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        s3 = front.client()
        s3.get_object(Bucket="b1x", Key="k", ExpectedBucketOwner="0" * 12, IfMatch='"1"')
        head = store.heads[0].decode().lower()
        assert 'if-match: "1"\r\n' in head
        assert "expected-bucket-owner" not in head
        assert front.key_id.lower() not in head
        assert urlsplit(front.url).netloc not in head


def test_a_store_that_is_the_server_itself_is_reported(tmp_path):
    key, secret = AccessKeys(tmp_path / "server").create("the store's", Rights.ADMIN)
    with kept_port() as itself:
        access = replace(access_at(itself), access_key_id=key.id, secret_access_key=secret)
        with serving(S3Relay(access), tmp_path, port=port_of(itself)) as front:
            assert refused(front.client().list_buckets) == ("InvalidRequest", 400)


def access_at(holder: socket.socket) -> S3Access:
    return S3Access(f"http://127.0.0.1:{port_of(holder)}", "us-east-1", "key", "secret")


@pytest.mark.parametrize("storage", ["s3://team", ""])
def test_a_server_with_another_store_passes_requests_on_to_it(tmp_path: Path, storage: str):
    """Named as such, or by its environment alone: `s3://` is the same to jobs and to clients."""
    home = {"TRACKSIDE_HOME": str(tmp_path / "home"), "TRACKSIDE_STORAGE": storage}
    settings = Settings.load(home)
    keys = AccessKeys(settings.layout.server.root)
    key, secret = keys.create("tests", Rights.ADMIN)
    with serving(S3(tmp_path / "buckets"), tmp_path) as store:
        store.client().create_bucket(
            Bucket="team", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        services = Services(settings, keys, store.environment)
        with services, listening(services.app) as url:
            front = S3Endpoint(url, store.buckets, keys, key.id, secret)
            front.client().put_object(Bucket="team", Key="k", Body=b"1")
        assert store.store("team").get("k") == b"1"
    assert not settings.layout.buckets.exists()


def presigned(front: S3Endpoint, query: str) -> str:
    """As signers make it that put headers into the address."""
    request = AWSRequest("PUT", f"{front.url}/b1x/k?{query}")
    S3SigV4QueryAuth(Credentials(front.key_id, front.secret), "s3", REGION).add_auth(request)
    return str(request.url)


def put(address: str, data: bytes) -> int:
    headers = {"Content-Type": "a/b"}
    request = urllib.request.Request(address, data=data, method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_session_of_the_servers_own_is_signed_with_its_token(tmp_path):
    store = RawStore(respond_with(OK))
    access = replace(store.access, session_token="the-token")
    with serving(S3Relay(access), tmp_path) as front:
        front.client().get_object(Bucket="b1x", Key="k")
    store.close()
    assert b"\r\nx-amz-security-token: the-token\r\n" in store.heads[0]
    assert b";x-amz-security-token" in store.heads[0]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of 127.0.0.1, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(LOOPBACK)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *form)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@contextmanager
def with_tls(server: uvicorn.Server) -> Iterator[str]:
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(60)


def test_a_store_behind_tls_is_reached_and_its_certificate_checked(
    tmp_path, certificate, monkeypatch
):
    keys = AccessKeys(tmp_path / "server")
    key, secret = keys.create("tests", Rights.ADMIN)
    app = App({"s3": S3(tmp_path / "buckets")}, keys)
    config = uvicorn.Config(app, log_config=None, ssl_certfile=str(certificate))
    data = os.urandom(5 * MIB)
    with with_tls(uvicorn.Server(config)) as url:
        access = S3Access(url, REGION, key.id, secret)
        with serving(S3Relay(access), tmp_path / "strangers") as front:
            assert refused(front.client().list_buckets) == ("ServiceUnavailable", 503)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with serving(S3Relay(access), tmp_path / "front") as front:
            s3 = front.client()
            s3.create_bucket(Bucket="b1x", CreateBucketConfiguration={"LocationConstraint": REGION})
            for _ in range(3):
                s3.put_object(Bucket="b1x", Key="k", Body=data)
                assert s3.get_object(Bucket="b1x", Key="k")["Body"].read() == data


def test_headers_in_a_presigned_url_become_headers_again(tmp_path):
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        assert put(presigned(front, "tagging=&x-amz-meta-colour=dark%20red"), b"1") == 200
        assert store.heads[0].startswith(b"PUT /b1x/k?tagging= HTTP/1.1\r\n")
        assert b"\r\nx-amz-meta-colour: dark red\r\n" in store.heads[0]
        assert put(presigned(front, "x-amz-meta-colour=red%0D%0Ax-evil%3A%201"), b"1") == 400
        assert len(store.heads) == 1


def call_of(method: str, path: str, query: str, headers: dict[str, str]) -> Call:
    request = Request(method, path, query, headers)
    caller = AccessKey(id="k", rights=Rights.ADMIN, label="", created=0.0)
    signature = Signature(Scope("k", "20260101", "r", "s3"), "", b"", "")
    return Call(request, caller, signature, b"", None, "id")


def test_a_relay_needs_the_rights_that_embedded_buckets_need(tmp_path):
    paths = {"service": "/", "bucket": "/b1x", "object": "/b1x/k"}
    for (method, level, name), (_, rights) in operations(Buckets(str(tmp_path)), Threads()).items():
        if name == "acl" and method == "PUT":
            continue  # embedded buckets take only what opens nothing
        if (method, level, name) == ("PUT", "bucket", ""):
            rights = Rights.ADMIN  # a new bucket at the store is its owner's affair
        headers = {"x-amz-copy-source": "b1x/k"} if method == "COPY" else {}
        sent = "PUT" if method == "COPY" else method
        call = call_of(sent, paths[level], f"{name}=" if name else "", headers)
        assert needed_rights(read_target(call)) is rights, (method, level, name)


@pytest.mark.parametrize(
    ("method", "path", "query", "headers"),
    [
        ("PUT", "/b1x", "policy", {}),
        ("PUT", "/b1x", "versioning", {}),
        ("DELETE", "/b1x", "lifecycle", {}),
        ("PUT", "/b1x/k", "acl", {}),
        ("PUT", "/b1x/k", "retention", {}),
        ("PUT", "/b1x/k", "", {"x-amz-acl": "public-read"}),
        ("PUT", "/b1x/k", "x-amz-acl=public-read&x-id=PutObject", {}),
        ("PUT", "/b1x/k", "x-amz-acl=private", {"x-amz-acl": "public-read"}),
        ("PUT", "/b1x/k", "x-amz-acl=public-read", {"x-amz-acl": "private"}),
        ("PUT", "/b1x/k", "X-Amz-Grant-Read=uri%3Dall", {}),
        ("PUT", "/b1x/k", "", {"x-amz-grant-read": "uri=all"}),
        ("PUT", "/b1x/k", "", {"x-amz-object-lock-mode": "COMPLIANCE"}),
        ("DELETE", "/b1x/k", "", {"x-amz-bypass-governance-retention": "true"}),
    ],
)
def test_changes_to_a_stores_policies_need_an_admin(method, path, query, headers):
    assert needed_rights(read_target(call_of(method, path, query, headers))) is Rights.ADMIN


OTHER_PATHS = ["//team", "/./team", "/x/../team", "/%2e/team", "/x/%2E%2e/team", "/x%2F..%2Fteam",
                "/team//", "/team/.", "/team/%2F", "/team/x/..", "//", "/..", "/x/..\\..\\team",
                "/%2f/team"]  # fmt: skip


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_a_path_that_a_store_may_take_for_another_needs_the_rights_of_both(tmp_path, path):
    for method, query in (("PUT", "policy"), ("DELETE", ""), ("PUT", "")):
        call = call_of(method, path, query, {})
        assert needed_rights(read_target(call)) is Rights.ADMIN, (method, query)
    assert needed_rights(read_target(call_of("GET", path, "policy", {}))) is Rights.READ


def test_no_form_of_the_path_makes_a_submitter_an_admin(tmp_path):
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        key, secret = front.keys.create("somebody", Rights.SUBMIT)
        submitter = SignedClient(front.url, key.id, secret)
        for path in OTHER_PATHS:
            status, _ = submitter.request("PUT", f"{path}?policy", b"{}")
            assert status in (400, 403), path
        assert store.heads == []
        assert submitter.request("PUT", "/team/a//b", b"1")[0] == 200


def test_the_store_gets_the_path_and_query_that_were_checked(tmp_path):
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        caller = SignedClient(front.url, front.key_id, front.secret)
        params = {
            "/b1x/%6B%7e?x%3Bacl&%61=+": b"PUT /b1x/k~?x%3Bacl&a=%2B HTTP/1.1\r\n",
            "/b1x/a;b%2Fc?uploadId=%2f": b"PUT /b1x/a%3Bb/c?uploadId=%2F HTTP/1.1\r\n",
            "/b1x/%FF": b"PUT /b1x/%FF HTTP/1.1\r\n",
        }
        for address, line in params.items():
            assert caller.request("PUT", address, b"1")[0] == 200
            assert line in store.heads[-1]  # after the body of the one before


def test_headers_that_s3_does_not_have_do_not_reach_the_store(tmp_path):
    """Stores have some of their own, which they obey because we have signed."""
    with relay_to(tmp_path, respond_with(OK)) as (store, front):
        own = {"x-minio-extract": "true", "x_amz_copy_source": "b/k", "x-forwarded-for": "10.0.0.1"}
        caller = SignedClient(front.url, front.key_id, front.secret)
        assert caller.request("PUT", "/b1x/k", b"1", own)[0] == 200
        head = store.heads[0].lower()
        assert not any(name.encode() in head for name in own)
        assert caller.request("PATCH", "/b1x/k", b"1")[0] == 405


def test_credentials_of_the_environment_are_renewed_and_used_while_valid(tmp_path):
    with serving(S3(tmp_path / "buckets"), tmp_path) as store:
        giver = KeyGiver(given(store.key_id, store.secret, seconds=200))
        access = S3Access(store.url, "us-east-1", source="surroundings")
        with giver, serving(S3Relay(access, giver.environ), tmp_path / "front") as front:
            front.client().create_bucket(Bucket="first")
            assert len(giver.requests) == 2  # the first are old already
            key, secret = store.keys.create("next", Rights.ADMIN)
            store.keys.revoke(store.key_id)
            giver.response = given(key.id, secret, seconds=200)
            front.client().create_bucket(Bucket="second")
            giver.response = b"broken"
            front.client().create_bucket(Bucket="third")
            giver.response = given(key.id, secret, seconds=3600)
            front.client().create_bucket(Bucket="fourth")
            num_requests = len(giver.requests)
            assert len(front.client().list_buckets()["Buckets"]) == 4
            assert len(giver.requests) == num_requests


def test_a_relay_without_credentials_reports_what_to_set():
    with pytest.raises(InvalidSetting, match="AWS_ACCESS_KEY_ID"):
        S3Relay(S3Access("http://127.0.0.1:1", "us-east-1", advice="Set AWS_ACCESS_KEY_ID."))
