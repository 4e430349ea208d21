"""Starts a host's supervisor so that it can be found again, whichever process dies.

The intent is on disk before the process exists; the process records its identity; the handle is
written last. `submit.py` and `pending_jobs.py` start a job's supervisors for the first time,
`reconcile.py` restarts them.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from subprocess import SubprocessError

from trackside.coordination.host_files import files_of
from trackside.errors import JobError, JobFailed
from trackside.files import damaged_files, durable
from trackside.files.permissions import make_folder
from trackside.placement.placement import Handle, Placement
from trackside.quick_dataclass import dataclass
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.status import Secondary
from trackside.settings import VISIBLE_GPUS
from trackside.system.boot_clock import Moment
from trackside.system.job_environment import GIVEN, packed
from trackside.system.run_as import RunAs

FIRST_ATTEMPT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """`placed.json`: the intent to start a host's supervisor, and its handle afterwards."""

    nonce: str
    handle: Handle | None = None
    """None until the process has been started."""
    revivals: int = 0
    """How often it was restarted after it died, without a long life in between."""
    revived: Moment | None = None
    """When it was last restarted."""
    gpus: tuple[str, ...] | None = None
    """GPUs reserved for this host; None if they are not assigned."""

    def write(self, path: Path) -> None:
        durable.write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "Placed | None":
        """None when missing or damaged: the supervisor itself records its identity."""
        return damaged_files.read(cls, path)


JobEnvironment = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Launcher:
    """Knows how a supervisor is started; not when."""

    placement: Placement
    command: Sequence[str]
    environment: Mapping[str, str]
    """The supervisor's whole environment. It goes to the process and never to disk."""
    job_environment: JobEnvironment | None = None
    """Variables for the script only of a job of this name; see `job_environment`."""
    run_as: RunAs = field(default_factory=RunAs)
    """The user that runs a script; the supervisor stays ours."""

    def start(self, folder: JobFolder, host: str, attempt: int, placed: Placed) -> None:
        """Call with the folder's lock held. `placed` becomes the intent, then gets its handle.

        `JobError` when the system refuses to start a process.
        """
        place = files_of(folder, host, attempt)
        make_folder(place.root)
        intent = replace(placed, handle=None)
        if Placed.read(place.placed) != intent:
            intent.write(place.placed)
        environment = dict(self.environment)
        if self.job_environment is not None:
            environment[GIVEN] = packed(self.job_environment(folder.root.name))
        if placed.gpus is not None:
            environment[VISIBLE_GPUS] = ",".join(placed.gpus)
        try:
            handle = self.placement.start(
                [*self.command, str(folder.root), host, placed.nonce],
                environment,
                nonce=placed.nonce,
                log=place.supervisor_log,
            )
        except (OSError, SubprocessError, ValueError) as error:
            raise JobError(f"The supervisor of {host} did not start: {error}") from error
        replace(placed, handle=handle).write(place.placed)


def start_all(launcher: Launcher, folder: JobFolder, hosts: Sequence[str]) -> None:
    """Start a job's first supervisors; call with the folder's lock held.

    `JobFailed` when the system refuses to start one: the job has ended then.
    """
    for host in hosts:
        placed = Placed.read(files_of(folder, host, FIRST_ATTEMPT).placed)
        try:
            launcher.start(folder, host, FIRST_ATTEMPT, placed or Placed(nonce=new_nonce()))
        except JobError as error:
            reason = f"InternalServerError: {error}"
            Journal(folder.journal).try_move(Secondary.FAILED, reason=reason)
            raise JobFailed(folder.root.name, reason) from error


def new_nonce() -> str:
    return os.urandom(16).hex()


@contextmanager
def locked(folder: JobFolder) -> Iterator[bool]:
    """Whether this process alone may start the job's supervisors now. Does not wait.

    The lock is released when its holder dies, perhaps just after it started a process that is not
    recorded yet. Starting another then is safe: of two supervisors of one host the later one exits.
    """
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
