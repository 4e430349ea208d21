"""A registry of images on loopback, by Debian's `docker-registry`, with or without a login."""

import http.client
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docker_engine import docker
from tests.kept_port import kept_port, port_of
from tests.wait import until

USER, PASSWORD = "alice", "secret-1"
_HASHED = "$2b$04$rvUsXKO7VVOkDdTogIcE4Oz/SMSWnC.NSVJhEbxteTGS1HrjKd6Zm"


class Registry:
    def __init__(self, host: str, config: Path) -> None:
        """`config` has the logins of Docker's client, instead of the user's own."""
        self.host = host
        self._config = config

    def log_in(self) -> None:
        self._docker("login", "--username", USER, "--password", PASSWORD, self.host)

    def push(self, image: str, name: str) -> str:
        """An image of the engine under its name in the registry, and then in the registry only."""
        whole = f"{self.host}/{name}"
        self._docker("tag", image, whole)
        self._docker("push", "--quiet", whole)
        self._docker("rmi", whole)
        return whole

    def _docker(self, *arguments: str) -> None:
        docker("--config", str(self._config), *arguments)


@contextmanager
def running_registry(folder: Path, *, with_login: bool = False) -> Iterator[Registry]:
    program = shutil.which("docker-registry")
    if program is None:
        problem = "no docker-registry, a package of Debian's (.ci/docker installs it)"
        if "docker" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(problem)
        pytest.skip(problem)
    with kept_port() as holder:
        host = f"127.0.0.1:{port_of(holder)}"
    config = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": host},
    }
    if with_login:
        (folder / "users").write_text(f"{USER}:{_HASHED}\n")
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "users")}}
    path = folder / "registry.json"  # JSON is YAML
    path.write_text(json.dumps(config))
    command = [program, "serve", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _status(host) in (200, 401))
        yield Registry(host, folder / "docker")
    finally:
        process.kill()
        process.wait(60)


def _status(host: str) -> int:
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", "/v2/")
        return connection.getresponse().status
    finally:
        connection.close()
