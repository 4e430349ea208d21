"""A shell in which somebody uses AWS's clients: a server, `trackside env`, and nothing after it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.aws_clients import missing_clients, program
from trackside.errors import TracksideError
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings

TRACKSIDE = (sys.executable, "-m", "trackside.cli")
SOURCE = str(Path(__file__).parents[1] / "src")
HURRIED = """
import time, types, sagemaker.session
hurried = types.ModuleType("time")
hurried.__dict__.update(vars(time))
hurried.time, hurried.sleep = (lambda: 30 * time.time()), (lambda seconds: time.sleep(seconds / 30))
sagemaker.session.time = hurried
"""
"""For versions 1 and 2 of SageMaker's SDK, which look for the log every 10 seconds and ask every 30
whether a job is over: let their clock go faster."""
_STOP_SECONDS = 60
_CONNECT = re.compile(r"(?:connect|sendto|sendmsg)\(.*?sin6?_port=htons\((\d+)\).*?\"([^\"]+)\"")


@dataclass(frozen=True)
class ClientShell:
    folder: Path
    environment: Mapping[str, str]
    url: str
    prefix: Sequence[str] = ()
    """What puts a command into the network of the server."""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def without(self, *prefixes: str) -> "ClientShell":
        """The same shell, with nothing set whose name begins like this."""
        kept = {name: v for name, v in self.environment.items() if not name.startswith(prefixes)}
        return replace(self, environment=kept)

    def run(self, *command: str, seconds: float = 350) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def aws(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(program("aws"), *arguments)

    @contextmanager
    def running(self, *command: str) -> Iterator[Path]:
        """The file with what the command has written so far; it is ended when this is left."""
        written = self.folder / "written"
        with written.open("wb") as output:
            started = subprocess.Popen(
                [*self.prefix, *command],
                cwd=self.folder,
                env={**self.environment, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=output,
            )
        try:
            yield written
        finally:
            started.kill()
            started.wait()

    def python(self, code: str, *, sdk: int = 2, wrapper: Sequence[str] = ()) -> tuple[str, Any]:
        """What the program printed, and the JSON of its last line."""
        done = self.run(*wrapper, program("python", sdk=sdk), "-c", code)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout, json.loads(done.stdout.splitlines()[-1])

    def traced(self, code: str, *, sdk: int = 2) -> tuple[str, Any, set[tuple[str, int]]]:
        """As `python`, with every address that the program tried to reach."""
        trace = self.folder / "contacts"
        calls = "trace=connect,sendto,sendmsg"
        wrapper = ("strace", "-f", "--seccomp-bpf", "-e", calls, "-o", str(trace))
        shown, reported = self.python(code, sdk=sdk, wrapper=wrapper)
        found = _CONNECT.findall(trace.read_text())
        return shown, reported, {(address, int(port)) for port, address in found}


@contextmanager
def client_shell(
    folder: Path,
    *env_options: str,
    prefix: Sequence[str] = (),
    server_options: Sequence[str] = (),
) -> Iterator[ClientShell]:
    """With every job ended when it is left, whatever became of the test."""
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [*prefix, *TRACKSIDE, "server", "--listen", "127.0.0.1:0", "--quiet", *server_options],
        stdout=subprocess.PIPE,
        env=ours,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            yield ClientShell(folder, _evaluated("env", *env_options), url, prefix)
        finally:
            stop_all_jobs()
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(_STOP_SECONDS)
            server.kill()


@contextmanager
def loopback_alone() -> Iterator[list[str]]:
    """The prefix of commands that are to have a network with nothing but 127.0.0.1 in it."""
    as_user = os.getuid() != 0
    unshare = ["unshare", "--net", *(["--map-root-user"] if as_user else [])]
    with subprocess.Popen(
        [*unshare, "sh", "-c", "ip link set lo up && echo up && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            missing_clients("this user may not make a network namespace")
        user = ["--user", "--preserve-credentials"] if as_user else []
        yield ["nsenter", f"--target={holder.pid}", "--net", *user]
        holder.kill()


def stop_all_jobs() -> None:
    jobs = Jobs(Settings.load(), dict(os.environ))
    running = [row.name for row in jobs.list() if row.status in ("InProgress", "Stopping")]
    for name in running:
        with suppress(TracksideError):
            jobs.stop(name)
    for name in running:
        with suppress(TracksideError):
            jobs.wait(name, timeout_seconds=_STOP_SECONDS)


def _evaluated(*command: str) -> dict[str, str]:
    """The environment of a bash that had only the way to Trackside's source before."""
    before = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "TRACKSIDE_HOME": os.environ["TRACKSIDE_HOME"],
        "PYTHONPATH": SOURCE,
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
    }
    line = 'eval "$("$@")" && env -0'
    shown = subprocess.run(
        ["bash", "-c", line, "bash", *TRACKSIDE, *command],
        env=before,
        capture_output=True,
        check=True,
    )
    pairs = (entry.partition("=") for entry in shown.stdout.decode().split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in ("_", "SHLVL", "PWD")}
