"""Images are found, pulled from a real registry, and missed with the way out."""

import base64
import json
import os
from pathlib import Path

import pytest

from tests.docker_engine import ADDRESS, SHELL, docker, docker_engine
from tests.image_registry import PASSWORD, USER, running_registry
from trackside.containers.engine_client import Engine
from trackside.containers.image_names import login_command, registry_of, with_tag
from trackside.containers.images import Pull, find_image, obtain_image, pulls_shown
from trackside.errors import ImageError

LARGE_BYTES = 4_000_000


@pytest.fixture
def engine() -> Engine:
    return Engine(docker_engine())


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "DOCKER_HOST": ADDRESS}


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("my-training", "docker.io"),
        ("library/python:3.11", "docker.io"),
        ("localhost/x", "localhost"),
        ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000"),
        ("ghcr.io/a/b@sha256:00", "ghcr.io"),
    ],
)
def test_the_registry_is_in_the_name(name: str, registry: str) -> None:
    assert registry_of(name) == registry


def test_a_name_without_a_tag_is_the_latest() -> None:
    assert with_tag("a:5000/b") == "a:5000/b:latest"
    assert with_tag("a/b:1") == "a/b:1"
    assert with_tag("a/b@sha256:00") == "a/b@sha256:00"


def test_how_to_log_in_depends_on_the_registry() -> None:
    assert login_command("docker.io") == "docker login"
    host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    assert login_command(host) == (
        "aws ecr get-login-password --region eu-west-1 | "
        f"docker login --username AWS --password-stdin {host}"
    )


def test_an_image_that_is_here_is_not_pulled(engine: Engine, environ: dict[str, str]) -> None:
    with pulls_shown(pytest.fail):  # type: ignore[arg-type]
        image = obtain_image(engine, SHELL, environ)
    assert image.id == docker("image", "inspect", "--format", "{{.Id}}", SHELL)
    assert image.digest == ""


def test_an_image_is_pulled_with_its_progress_and_its_digest(
    engine: Engine, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, int]] = []
    (tmp_path / "large").write_bytes(os.urandom(LARGE_BYTES))
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (tmp_path / "Dockerfile").write_text(f"FROM {SHELL}\nCOPY large /\n")
    built = f"trackside-test/large-{os.getpid()}"
    docker("build", "--quiet", "--tag", built, str(tmp_path))
    image_id = docker("image", "inspect", "--format", "{{.Id}}", built)
    with running_registry(tmp_path) as registry:
        name = registry.push(built, "team/large")
        docker("rmi", built)  # so that its layer has to be downloaded
        assert find_image(engine, name) is None
        with pulls_shown(lambda pull: shown.append((pull.done_bytes, pull.size_bytes))):
            image = obtain_image(engine, name, environ)
    docker("rmi", name)
    assert image.id == image_id
    assert image.digest.startswith(f"{name}@sha256:")
    assert all(done <= size for done, size in shown)
    assert shown[-1][0] == shown[-1][1] >= LARGE_BYTES


def test_a_registry_that_wants_a_login_gets_the_stored_one(
    engine: Engine, environ: dict[str, str], tmp_path: Path
) -> None:
    with running_registry(tmp_path, with_login=True) as registry:
        registry.log_in()
        name = registry.push(SHELL, "private")
        with pytest.raises(ImageError) as refused:
            obtain_image(engine, name, environ)
        packed = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / ".docker").mkdir()
        config = {"auths": {registry.host: {"auth": packed}}}
        (tmp_path / ".docker" / "config.json").write_text(json.dumps(config))
        assert obtain_image(engine, name, environ).id
        docker("rmi", name)
    assert f"There is no image {name!r} on this machine" in str(refused.value)
    assert f"`docker login {registry.host}`" in str(refused.value)


def test_a_name_that_the_registry_does_not_have(
    engine: Engine, environ: dict[str, str], tmp_path: Path
) -> None:
    with running_registry(tmp_path) as registry:
        name = f"{registry.host}/no-such"
        with pytest.raises(ImageError) as refused:
            obtain_image(engine, name, environ)
    assert f"{registry.host} did not give it" in str(refused.value)
    assert f"`trackside image build SCRIPT -t {name}`" in str(refused.value)


def test_a_registry_that_is_away(engine: Engine, environ: dict[str, str]) -> None:
    with pytest.raises(ImageError, match=r"127\.0\.0\.1:1 did not give it: .*connection refused"):
        obtain_image(engine, "127.0.0.1:1/x", environ)


def test_an_engine_that_is_away(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No Docker engine at"):
        obtain_image(Engine(f"unix://{tmp_path}/no.sock"), "x", environ)


def test_progress_counts_the_download_once() -> None:
    pull = Pull("x")
    for state, current in (("Downloading", 40), ("Downloading", 100), ("Extracting", 10)):
        detail = {"current": current, "total": 100}
        pull.note({"status": state, "id": "a", "progressDetail": detail})
    pull.note({"status": "Pulling from team/x", "id": "latest"})
    pull.note({"status": "Already exists", "id": "b", "progressDetail": {}})
    pull.note({"status": "Digest: sha256:00"})
    assert (pull.done_bytes, pull.size_bytes) == (100, 100)
