"""Credentials are found where `docker login` and `podman login` leave them."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from trackside.containers.registry_credentials import (
    find_login,
    header_for,
    header_for_all,
)

PACKED = base64.b64encode(b"alice:a:b").decode()
HUB = "https://index.docker.io/v1/"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "XDG_RUNTIME_DIR": "/none"}


def configure(environ: dict[str, str], **config: Any) -> None:
    path = Path(environ["HOME"], ".docker", "config.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config))


def make_helper(environ: dict[str, str], name: str, script: str) -> None:
    path = Path(environ["HOME"], f"docker-credential-{name}")
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_a_login_nothing_is_sent(environ: dict[str, str]) -> None:
    assert header_for("docker.io", environ) == {}
    assert header_for_all(environ) == {}


def test_a_password_may_have_a_colon(environ: dict[str, str]) -> None:
    configure(environ, auths={"ghcr.io": {"auth": PACKED}})
    expected = {"username": "alice", "password": "a:b", "serveraddress": "ghcr.io"}
    assert find_login("ghcr.io", environ) == expected
    assert find_login("docker.io", environ) is None
    encoded = header_for("ghcr.io", environ)["X-Registry-Auth"]
    assert json.loads(base64.urlsafe_b64decode(encoded)) == expected


def test_docker_hub_has_an_address_of_its_own(environ: dict[str, str]) -> None:
    configure(environ, auths={HUB: {"auth": PACKED}, "http://10.0.0.1:5000/v1/": {"auth": PACKED}})
    assert (find_login("docker.io", environ) or {})["serveraddress"] == HUB
    assert find_login("10.0.0.1:5000", environ)
    sent = json.loads(base64.urlsafe_b64decode(header_for_all(environ)["X-Registry-Config"]))
    assert sorted(sent) == ["10.0.0.1:5000", HUB]


def test_a_token_stands_for_a_password(environ: dict[str, str]) -> None:
    configure(environ, auths={"acr.io": {"auth": PACKED, "identitytoken": "t"}})
    assert find_login("acr.io", environ) == {"identitytoken": "t", "serveraddress": "acr.io"}


def test_a_helper_of_the_registry_is_asked(environ: dict[str, str]) -> None:
    make_helper(
        environ, "ecr", 'read s; echo "{\\"Username\\": \\"AWS\\", \\"Secret\\": \\"$s\\"}"'
    )
    make_helper(environ, "store", 'echo "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"x\\"}"')
    configure(environ, credHelpers={"1.dkr.ecr": "ecr"}, credsStore="store")
    assert (find_login("1.dkr.ecr", environ) or {})["password"] == "1.dkr.ecr"
    assert find_login("docker.io", environ) == {"identitytoken": "x", "serveraddress": HUB}


@pytest.mark.parametrize("script", ["echo not found; exit 1", "echo nonsense", "echo '{}'"])
def test_a_helper_without_an_answer_leaves_it_to_the_file(
    environ: dict[str, str], script: str
) -> None:
    make_helper(environ, "store", script)
    configure(environ, credsStore="store", auths={"ghcr.io": {"auth": PACKED}})
    assert find_login("ghcr.io", environ)
    assert find_login("docker.io", environ) is None


def test_a_helper_that_is_not_installed_is_said(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    configure(environ, credsStore="desktop")
    assert find_login("docker.io", environ) is None
    assert "docker-credential-desktop, which is not installed" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"auths": []}', '{"auths": {"ghcr.io": 3}}'])
def test_a_damaged_file_has_no_credentials(environ: dict[str, str], text: str) -> None:
    configure(environ)
    Path(environ["HOME"], ".docker", "config.json").write_text(text)
    assert find_login("ghcr.io", environ) is None


def test_what_podman_stored_is_found(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    text = json.dumps({"auths": {"quay.io": {"auth": PACKED}}})
    (tmp_path / "containers" / "auth.json").write_text(text)
    environ["XDG_RUNTIME_DIR"] = str(tmp_path)
    assert find_login("quay.io", environ)
    other = {**environ, "XDG_RUNTIME_DIR": "/none"}
    assert find_login("quay.io", other) is None
    named = {**other, "REGISTRY_AUTH_FILE": str(tmp_path / "containers" / "auth.json")}
    assert find_login("quay.io", named)


def test_no_secret_is_logged(environ: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    configure(environ, auths={"ghcr.io": {"auth": "!!"}, "quay.io": {"auth": PACKED}})
    make_helper(environ, "bad", "echo s3cret; echo s3cret >&2; exit 0")
    assert find_login("ghcr.io", environ) is None
    configure(environ, credsStore="bad")
    assert find_login("ghcr.io", environ) is None
    assert "log in again" in caplog.text
    assert "s3cret" not in caplog.text
    assert PACKED not in caplog.text
