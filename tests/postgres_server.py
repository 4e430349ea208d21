"""A real Postgres on loopback that a test may kill, freeze and start again."""

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.kept_port import kept_port, port_of
from tests.wait import until

USER = "trackside"
PASSWORD = "hush-0815"
_PR_SET_PDEATHSIG = 1


class PostgresServer:
    """`url` leads to a database that is there; `make_database` makes more, which takes time."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._user = user
        self._holder = kept_port()  # also between a death and the next start
        self.port = port_of(self._holder)
        self._process: subprocess.Popen[bytes] | None = None
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        command = [str(programs / "initdb"), "-D", str(self._data), "-U", USER, "-E", "UTF8"]
        command += ["--no-locale", "--no-sync", "-A", "scram-sha-256", f"--pwfile={secret}"]
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, *, port: int | None = None, password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{port or self.port}/{database}"

    def empty(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS trackside CASCADE")

    def make_database(self) -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def start(self) -> None:
        settings = ["fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1"]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += [part for setting in settings for part in ("-c", setting)]
        self._process = subprocess.Popen(
            command,
            user=self._user,
            cwd=self._data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )
        until(self._answers)

    def kill(self) -> None:
        """As a crash does it: nobody is told."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # SIGKILL would leave its children
        self._process.wait(60)
        self._process = None

    def is_running(self) -> bool:
        return self._process is not None

    def close(self) -> None:
        if self.is_running():
            self.kill()
        self._holder.close()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=10).close()
        except psycopg.OperationalError:
            assert self._process is not None
            assert self._process.poll() is None, "Postgres ended instead of listening"
            return False
        return True


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Skips without the program, unless TRACKSIDE_REQUIRE names postgres."""
    programs = _programs()
    if programs is None:
        reason = "Postgres is not installed (pip install pgserver brings it)"
        if "postgres" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    # It refuses to run as root, and another user may not enter pytest's folders.
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="trackside-postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
            programs = _reachable(programs, folder, user)
        with closing(PostgresServer(programs, folder, user)) as server:
            server.start()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Those of the package, of which only the programs are used, or the system's."""
    package = importlib.util.find_spec("pgserver")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    found = shutil.which("postgres")
    return None if found is None else Path(found).resolve().parent


def _reachable(programs: Path, folder: Path, user: str) -> Path:
    test = ["test", "-x", str(programs / "postgres")]
    if subprocess.run(test, user=user, check=False, cwd="/").returncode == 0:
        return programs
    copy = folder / "programs"
    shutil.copytree(programs.parent, copy)
    copy.chmod(0o755)
    return copy / "bin"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
