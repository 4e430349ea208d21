"""`trackside server` as a process of its own on loopback, to be killed and started again."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.drill.case import Broke
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home

TRACKSIDE = (sys.executable, "-m", "trackside.cli")
_START_SECONDS = 60.0


class Server:
    def __init__(self, home: Path, environment: Mapping[str, str], command: Sequence[str]) -> None:
        self.home = Home(home)
        self.log = home.with_suffix(".server.log")
        """Its standard error; every start appends."""
        self.environment = dict(environment)
        self._command = tuple(command)
        self._holder = _kept_port()
        self.port = int(self._holder.getsockname()[1])
        self.key, self.secret = AccessKeys(self.home.server.root).create("drill", Rights.ADMIN)
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def client_environment(self) -> dict[str, str]:
        """What makes `trackside` in a process speak to it."""
        return self.credentials(self.key.id, self.secret)

    def credentials(self, key: str, secret: str) -> dict[str, str]:
        return {
            "TRACKSIDE_URL": self.url,
            "TRACKSIDE_ACCESS_KEY_ID": key,
            "TRACKSIDE_SECRET_ACCESS_KEY": secret,
        }

    def client(self, service: str, **settings: Any) -> Any:
        """boto3's, that asks once: a fault is seen, not hidden."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.key.id,
            aws_secret_access_key=self.secret,
            config=Config(retries={"total_max_attempts": 1}, **settings),
        )

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--listen", f"127.0.0.1:{self.port}"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self.answers():
            if self._process.poll() is not None:
                raise Broke(f"the server exited {self._process.returncode}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Broke(f"the server did not answer within {_START_SECONDS:g} s")
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def last_words(self) -> str:
        return self.log.read_text(errors="replace").strip()[-600:]

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and it is gone when this returns."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        self.kill()
        self._holder.close()


def _kept_port() -> socket.socket:
    """Bound and not listening: it stays ours while the server is dead, and whoever connects then
    is refused."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder
