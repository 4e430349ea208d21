"""A real server for clients of our own, with a home of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault_proxy import FaultProxy
from tests.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "the server's home") as server:
        yield server


@pytest.fixture
def faulty_server(server: ServerProcess) -> Iterator[FaultProxy]:
    """The server, behind a proxy that a test can make misbehave."""
    with FaultProxy(server.url) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return tmp_path
