"""How the hosts of an MPI job learn the result of the master's mpirun.

On one machine through a local socket; between machines over ssh, which mpirun needs anyway. Other
users of a machine are neither notified nor trusted.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress

from trackside.errors import ToolkitError
from trackside.toolkit import log
from trackside.toolkit.environment import Job
from trackside.toolkit.hosts import accepts, wait_for_port

_SSHD = "/usr/sbin/sshd"
_SSH_PORT = 22
_SSH = ("ssh", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_REPORT_SECONDS = 30.0
_MASTER_GONE_SECONDS = 60.0
_CODE = struct.Struct("!i")
_CREDENTIALS = struct.Struct("3i")  # pid, user, group
_OUTCOME = "outcome"
# A name in /tmp proves nothing: only folders of this user are written to, and never through a link.
# The host may not have created its own yet.
_LEAVE_OUTCOME = """
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  for folder in {prefix}*; do
    if [ -d "$folder" ] && [ -O "$folder" ] && [ ! -L "$folder" ]; then
      file="$folder/{name}"
      echo {code} > "$file.partial" && mv "$file.partial" "$file" && written=1
    fi
  done
  [ -n "$written" ] && exit 0
  sleep 1
done
exit 1
"""


class OutcomeChannel(ABC):
    """One per host. The master prepares and reports, the others receive."""

    @abstractmethod
    def prepare(self) -> None:
        """On the master, before mpirun: all other hosts can be reached afterwards."""

    @abstractmethod
    def report(self, code: int) -> None:
        """Notify the other hosts; one that is gone is skipped with a warning."""

    @abstractmethod
    def receive(self) -> int | None:
        """Wait for the master's exit code; None when the master ended without one."""

    @abstractmethod
    def close(self) -> None: ...


def open_channel(job: Job) -> OutcomeChannel:
    return LocalChannel(job) if job.settings.shares_machine else SshChannel(job)


class LocalChannel(OutcomeChannel):
    """A Unix socket in the abstract name space: no file, no port, gone with its process."""

    def __init__(self, job: Job) -> None:
        environment = job.environment
        self._num_others = len(environment.distribution_hosts) - 1
        self._wait_seconds = job.settings.host_wait_seconds
        port = job.settings.master_port or ""
        name = f"trackside-mpi-{environment.job_name}-{environment.master_hostname}-{port}"
        self._address = f"\0{name}"[:100]
        self._socket = _new_socket()

    def prepare(self) -> None:
        self._socket.bind(self._address)
        # A client that connects waits in the queue until the result is known.
        self._socket.listen(self._num_others)

    def report(self, code: int) -> None:
        deadline = time.monotonic() + _REPORT_SECONDS
        num_notified = 0
        while num_notified < self._num_others:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                log.warning(
                    f"Only {num_notified} of {self._num_others} other hosts fetched the result."
                )
                return
            with connection:
                if not _is_of_this_user(connection):
                    continue
                num_notified += 1
                with suppress(OSError):
                    connection.sendall(_CODE.pack(code))

    def receive(self) -> int | None:
        deadline = time.monotonic() + self._wait_seconds
        while not self._is_connected():
            if time.monotonic() > deadline:
                raise ToolkitError("The master host of this MPI job was never reachable.")
            time.sleep(0.05)
        try:
            received = self._socket.recv(_CODE.size, socket.MSG_WAITALL)
        except ConnectionError:
            return None
        return int(_CODE.unpack(received)[0]) if len(received) == _CODE.size else None

    def close(self) -> None:
        self._socket.close()

    def _is_connected(self) -> bool:
        try:
            self._socket.connect(self._address)
        except ConnectionRefusedError:
            return False
        if _is_of_this_user(self._socket):
            return True
        self._socket.close()
        self._socket = _new_socket()
        return False


class SshChannel(OutcomeChannel):
    """Every host runs sshd; the master writes its exit code to a file on each of the others."""

    def __init__(self, job: Job) -> None:
        environment = job.environment
        self._master = environment.master_hostname
        self._others = [host for host in environment.distribution_hosts if host != self._master]
        self._wait_seconds = job.settings.host_wait_seconds
        # No job name has a dot: this prefix belongs to no other job.
        prefix = f"trackside-mpi-{environment.job_name or 'job'}."
        self._prefix = os.path.join(tempfile.gettempdir(), prefix)
        self._folder = None if environment.is_master else tempfile.mkdtemp(prefix=prefix)
        self._sshd = _start_sshd()

    def prepare(self) -> None:
        for host in self._others:
            wait_for_port(host, _SSH_PORT, self._wait_seconds)

    def report(self, code: int) -> None:
        prefix = shlex.quote(self._prefix)
        script = _LEAVE_OUTCOME.format(prefix=prefix, code=code, name=_OUTCOME)
        write = shlex.join(["sh", "-c", script])
        for host in self._others:
            try:
                subprocess.run(
                    [*_SSH, host, write], check=True, timeout=_REPORT_SECONDS, capture_output=True
                )
            except (OSError, subprocess.SubprocessError) as refused:
                log.warning(f"Host {host!r} was not notified of the job's end: {refused}")

    def receive(self) -> int | None:
        assert self._folder is not None
        outcome = os.path.join(self._folder, _OUTCOME)
        wait_for_port(self._master, _SSH_PORT, self._wait_seconds)
        last_seen = time.monotonic()
        while not os.path.exists(outcome):
            if accepts(self._master, _SSH_PORT):
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > _MASTER_GONE_SECONDS:
                return None
            time.sleep(1)
        with open(outcome) as file:
            return int(file.read())

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._sshd is not None:
            self._sshd.terminate()
            self._sshd.wait()


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_of_this_user(connection: socket.socket) -> bool:
    """Any user of the machine can use the name of an abstract socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _start_sshd() -> subprocess.Popen[bytes] | None:
    if accepts("127.0.0.1", _SSH_PORT):
        return None
    if not os.access(_SSHD, os.X_OK):
        raise ToolkitError(
            f"MPI between machines needs {_SSHD} and password-less ssh in the image. "
            "Install openssh-server and put a key pair into ~/.ssh."
        )
    os.makedirs("/run/sshd", exist_ok=True)
    return subprocess.Popen([_SSHD, "-D"], start_new_session=True)
