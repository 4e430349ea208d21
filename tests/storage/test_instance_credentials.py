"""Keys from the platform, fetched from servers that respond as EKS, ECS and EC2 do."""

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import pytest

from trackside.errors import InvalidSetting, StoreUnreachable
from trackside.storage import instance_credentials
from trackside.storage.credentials import S3Access
from trackside.storage.instance_credentials import Keys, keys_for

END = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
EXPECTED = Keys("ID", "hush", "token", END.timestamp())
SURROUNDED = S3Access(None, "eu-central-1", source="surroundings", advice="Set AWS_PROFILE.")


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may stall for a while."""
    monkeypatch.setattr(instance_credentials, "_SECONDS", 100.0)


def given(key_id: str, secret: str, *, seconds: float | None = None) -> bytes:
    end = END if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    fields = {"AccessKeyId": key_id, "SecretAccessKey": secret, "Token": "token"}
    return json.dumps({**fields, "Expiration": f"{end:%Y-%m-%dT%H:%M:%SZ}"}).encode()


class KeyGiver:
    """Sends the same response to every request, and records the requests."""

    def __init__(self, response: bytes) -> None:
        self.response = response
        self.requests: list[tuple[str, str, dict[str, str], str]] = []
        giver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("content-length", "0"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(size).decode()
                giver.requests.append((self.command, self.path, headers, body))
                response = giver.response_to(self.path)
                self.send_response(200)
                self.send_header("content-length", str(len(response)))
                self.end_headers()
                self.wfile.write(response)

            do_PUT = do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/keys"}

    def response_to(self, path: str) -> bytes:
        return self.response

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class Instance(KeyGiver):
    """As EC2 does: a session first, then the role's name, then its keys."""

    def response_to(self, path: str) -> bytes:
        if path == "/latest/api/token":
            return b"session"
        return b"my-role\n" if path.endswith("/security-credentials/") else self.response


def test_keys_that_are_configured_are_taken_as_they_are():
    access = S3Access(None, "eu-central-1", "ID", "hush", "token")
    assert keys_for(access, {"AWS_WEB_IDENTITY_TOKEN_FILE": "x"}) == Keys("ID", "hush", "token")


def test_a_container_is_known_by_its_token(tmp_path: Path):
    (tmp_path / "token").write_text("it is me\n")
    with KeyGiver(given("ID", "hush")) as giver:
        environ = {
            **giver.environ,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
            "http_proxy": "http://127.0.0.1:1",
        }
        assert keys_for(SURROUNDED, environ) == EXPECTED
        [(method, path, headers, _)] = giver.requests
    assert (method, path, headers["authorization"]) == ("GET", "/keys", "it is me")


def test_a_web_identity_assumes_its_role(tmp_path: Path):
    (tmp_path / "token").write_text("it is me\n")
    response = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ID</AccessKeyId>
<SecretAccessKey>hush</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>{END:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
    with KeyGiver(response.encode()) as giver:
        environ = {
            "AWS_ENDPOINT_URL_STS": giver.url,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::000000000000:role/trainer",
        }
        assert keys_for(SURROUNDED, environ) == EXPECTED
        [(method, _, _, body)] = giver.requests
    form = {name: value for name, [value] in parse_qs(body).items()}
    assert method == "POST"
    assert form["Action"] == "AssumeRoleWithWebIdentity"
    assert form["RoleArn"] == environ["AWS_ROLE_ARN"]
    assert form["WebIdentityToken"] == "it is me"


def test_an_instance_has_the_keys_of_its_role():
    access = S3Access(None, "eu-central-1", source="instance")
    with Instance(given("ID", "hush")) as giver:
        environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": giver.url}
        assert keys_for(access, environ) == EXPECTED
        assert [(method, path) for method, path, _, _ in giver.requests] == [
            ("PUT", "/latest/api/token"),
            ("GET", "/latest/meta-data/iam/security-credentials/"),
            ("GET", "/latest/meta-data/iam/security-credentials/my-role"),
        ]
        assert giver.requests[2][2]["x-aws-ec2-metadata-token"] == "session"


@pytest.mark.parametrize("response", [b"", b"<html>", b"{}", b"[]"])
def test_the_error_for_a_platform_without_keys_has_the_way_out(response: bytes):
    with KeyGiver(response) as giver, pytest.raises(StoreUnreachable, match="Set AWS_PROFILE"):
        keys_for(SURROUNDED, giver.environ)


def test_a_machine_that_is_no_instance_is_an_error():
    access = S3Access(None, "eu-central-1", source="instance", advice="Set AWS_PROFILE.")
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}
    with pytest.raises(InvalidSetting, match="Set AWS_PROFILE"):
        keys_for(access, environ)
