"""Tests of the client of the Docker Engine API: where the engine is, and answers that break off."""

import socket
import threading
from pathlib import Path

import pytest

from tests.docker_engine import SHELL, docker, docker_engine
from trackside.containers.engine_client import (
    Engine,
    EngineRefused,
    EngineUnreachable,
    find_engine,
)


def test_the_engine_is_where_docker_host_says() -> None:
    assert find_engine({"DOCKER_HOST": "unix:///a b"}) == "unix:///a b"


def test_without_docker_host_it_is_the_first_socket_there_is(tmp_path: Path) -> None:
    (tmp_path / "podman").mkdir()
    (tmp_path / "podman" / "podman.sock").touch()
    found = find_engine({"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)})
    is_installed = Path("/var/run/docker.sock").exists()
    podman = f"unix://{tmp_path}/podman/podman.sock"
    assert found == ("unix:///var/run/docker.sock" if is_installed else podman)


def test_dockers_own_context_names_the_engine(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path / "config")}
    config = ("--config", environ["DOCKER_CONFIG"])
    docker(*config, "context", "create", "mine", "--docker", f"host=unix://{tmp_path}/mine.sock")
    assert find_engine({**environ, "DOCKER_CONTEXT": "mine"}) == f"unix://{tmp_path}/mine.sock"
    settings = tmp_path / "config" / "config.json"
    settings.write_text('{"currentContext": "mine"}')
    assert find_engine(environ) == f"unix://{tmp_path}/mine.sock"
    for text in ('{"currentContext": "default"}', '{"currentContext": "gone"}', "[", "[]"):
        settings.write_text(text)
        assert "mine.sock" not in find_engine(environ)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.0 200 OK\r\nContent-",
        b'HTTP/1.0 200 OK\r\n\r\n{"Id": ',
        b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n",
        b"nonsense",
    ],
)
def test_an_answer_that_breaks_off_is_an_engine_that_is_away(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        thread = threading.Thread(target=answer_once, args=[listener, answer])
        thread.start()
        with pytest.raises(EngineUnreachable):
            Engine(f"unix://{tmp_path}/s").call("GET", "/version")
        thread.join()


def answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)


def test_a_refusal_has_the_engines_words() -> None:
    engine = Engine(docker_engine())
    with pytest.raises(EngineRefused, match="No such container: no such") as caught:
        engine.call("GET", "/containers/no such/json")
    assert caught.value.status == 404
    assert engine.inspect("no such") is None
    assert engine.image(SHELL)["Os"] == "linux"
