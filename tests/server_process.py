"""`trackside server` as a process of its own, with a home of its own, to be killed and started."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.kept_port import kept_port, port_of
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home

TRACKSIDE = (sys.executable, "-m", "trackside.cli")


class ServerProcess:
    """In its `with` block it runs, on the same port after each start."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self._variables = variables
        self._holder = kept_port()  # also while the server is dead
        self.port = port_of(self._holder)
        self.key, self.secret = AccessKeys(Home(home).server.root).create("tests", Rights.ADMIN)
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, url: str = "") -> dict[str, str]:
        """What makes a client's process speak to it."""
        return {
            "TRACKSIDE_URL": url or self.url,
            "TRACKSIDE_ACCESS_KEY_ID": self.key.id,
            "TRACKSIDE_SECRET_ACCESS_KEY": self.secret,
        }

    def use(self, monkeypatch: pytest.MonkeyPatch, url: str = "") -> None:
        for name, value in self.environment(url).items():
            monkeypatch.setenv(name, value)

    def start(self) -> None:
        ours = {name: text for name, text in os.environ.items() if not name.startswith("TRACKSIDE")}
        path = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [*TRACKSIDE, "server", "--listen", f"127.0.0.1:{self.port}", "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**ours, "TRACKSIDE_HOME": str(self.home), "PYTHONPATH": path, **self._variables},
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.rstrip().endswith(f":{self.port}"), "the server ended before it listened"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._holder.close()
