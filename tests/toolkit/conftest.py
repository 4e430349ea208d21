"""A host of a job, as the platform prepares it, on which tests run the real `train`."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import pytest

import trackside

SOURCES = str(Path(trackside.__file__).resolve().parent.parent)
TRAIN = (sys.executable, "-m", "trackside.toolkit")


class Finished(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def log(self) -> str:
        return self.stderr.decode()

    @property
    def last_line(self) -> str:
        """The script's, after whatever pip said."""
        return self.stdout.decode().splitlines()[-1]


class Host:
    """One /opt/ml, somewhere else."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.code = base / "code"
        self.output = base / "output"
        self.config = base / "input" / "config"
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(base),
            "PYTHONPATH": SOURCES,
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_PROGRAM": "train.py",
        }
        self.code.mkdir(parents=True)
        self.config.mkdir(parents=True)
        self._started: list[subprocess.Popen[bytes]] = []

    def configure(self, name: str, content: object) -> None:
        (self.config / f"{name}.json").write_text(json.dumps(content))

    def hyperparameters(self, **values: object) -> None:
        self.configure("hyperparameters", values)

    def script(self, text: str, name: str = "train.py") -> None:
        path = self.code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def train(self, **variables: str) -> Finished:
        """Run it with pipes, as a container's log driver does."""
        pipe = subprocess.PIPE
        process = self._popen(TRAIN, pipe, pipe, variables)
        stdout, stderr = process.communicate()
        return Finished(process.returncode, stdout, stderr)

    def start(
        self,
        command: tuple[str, ...] = TRAIN,
        *,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        **variables: str,
    ) -> subprocess.Popen[bytes]:
        return self._popen(command, stdout, stderr, variables)

    def _popen(
        self,
        command: tuple[str, ...],
        stdout: int | IO[bytes] | None,
        stderr: int | IO[bytes] | None,
        variables: dict[str, str],
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            env=self.variables | variables,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    @property
    def failure(self) -> str:
        return (self.output / "failure").read_text()

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                groups = children_of(process.pid)
                process.kill()
                process.wait()
                for group in groups:
                    with suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "ml")
    yield host
    host.close()


def children_of(pid: int) -> list[int]:
    """The script is one of them, and leads a process group."""
    with suppress(FileNotFoundError):  # it has just ended
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in children.split()]
    return []


def needs(program: str, ability: str) -> None:
    """Skip without the program, unless TRACKSIDE_REQUIRE names the ability."""
    if shutil.which(program):
        return
    message = f"{program} is not installed"
    if ability in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may unshare and mount")
