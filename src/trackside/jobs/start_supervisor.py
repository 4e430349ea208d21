"""Starts the supervisors of a job's hosts so that they can be found again, whichever process dies.

The intent is on disk before any process exists; each supervisor records its identity; the group's
handle is written last. `submit.py` and `pending_jobs.py` place a job's first group, `reconcile.py`
restarts a supervisor, `reconcile_elsewhere.py` places another group.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from subprocess import SubprocessError
from typing import TYPE_CHECKING

from trackside.coordination.host_files import files_of
from trackside.errors import JobError, JobFailed, StorageError
from trackside.files import disk_space
from trackside.files.permissions import make_folder
from trackside.jobs.resource_request import needs_at_engine
from trackside.placement.choose import UnknownPlacement, placement_named
from trackside.placement.placement import (
    Group,
    HostRequest,
    Placement,
    PlacementAway,
    Poll,
    Unknown,
)
from trackside.quick_dataclass import dataclass
from trackside.records.death import Death, Evidence, cause_of
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.placed import Placed, PlacedHost
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import VISIBLE_GPUS
from trackside.storage.locate import locate_object
from trackside.system.job_environment import GIVEN, packed
from trackside.system.run_as import RunAs

if TYPE_CHECKING:
    from trackside.records.group import Bundle

FIRST_ATTEMPT = 1
_SUPERVISOR = ("-P", "-m", "trackside.supervisor")

JobEnvironment = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Launcher:
    """Knows how supervisors are started; not when."""

    command: Sequence[str]
    """Of a supervisor on this machine."""
    environment: Mapping[str, str]
    """The whole environment of a supervisor on this machine. It goes to the process and never to
    disk."""
    job_environment: JobEnvironment | None = None
    """Variables for the script only of a job of this name; see `job_environment`."""
    run_as: RunAs = field(default_factory=RunAs)
    """The user that runs a script; the supervisor stays ours."""
    placement_of: Callable[[str], Placement] = placement_named
    """The placement of this name."""

    def start(
        self,
        folder: JobFolder,
        spec: JobSpec,
        placed: Placed,
        *,
        hosts: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> None:
        """Start these hosts, or all of the group. Call with the folder's lock held: `placed`
        becomes the intent, then gets a handle.

        `JobError` when they cannot be started, `PlacementAway` when that cannot be tried now;
        then none of them runs.
        """
        names = [*placed.hosts] if hosts is None else [*hosts]
        attempt = placed.attempt if attempt is None else attempt
        intent = placed.before_start(names)
        for host in names:
            make_folder(files_of(folder, host, attempt).root)
        if Placed.read(folder) != intent:
            intent.write(folder)
        try:
            placement = self.placement_of(placed.placement)
            if not placement.shares_files:
                placed = replace(placed, epoch=_taken_epoch(folder, spec, placed))
                intent = replace(intent, epoch=placed.epoch)
            group = self._group(folder, spec, placed, names, attempt, placement)
            handle = placement.start(group)
        except (OSError, SubprocessError, ValueError) as error:
            what = " and ".join(names) if len(names) < 3 else f"{len(names)} hosts"
            raise JobError(f"The supervisor of {what} did not start: {error}") from error
        intent.after_start(names, handle).write(folder)

    def poll(self, placed: Placed) -> dict[str, Poll]:
        """The state of every host that was started."""
        try:
            placement = self.placement_of(placed.placement)
        except UnknownPlacement as error:
            unknown = Unknown(f"The placement {error.name!r} {error}")
            return dict.fromkeys(placed.started_hosts, unknown)
        polls: dict[str, Poll] = {}
        for each in placed.started:
            found = placement.poll(each.handle)
            for host in each.hosts:
                polls[host] = found.get(host) or Unknown(f"{host} is not in {each.handle!r}.")
        return polls

    def stop(self, placed: Placed, *, force: bool = False) -> None:
        """Ask all supervisors of the group to end, or kill them."""
        placement = self.placement_of(placed.placement)
        for each in placed.started:
            placement.stop(each.handle, force=force)

    def _group(
        self,
        folder: JobFolder,
        spec: JobSpec,
        placed: Placed,
        names: Sequence[str],
        attempt: int,
        placement: Placement,
    ) -> Group:
        is_here = placement.shares_files
        needs = dict(zip(spec.hosts, needs_at_engine(spec), strict=True))
        given = self._given(spec.name)
        requests = []
        for name in names:
            host, place = placed.hosts[name], files_of(folder, name, attempt)
            gpus = {} if host.gpus is None else {VISIBLE_GPUS: ",".join(host.gpus)}
            arguments = (str(folder.root), name, host.nonce) if is_here else ("--group", name)
            requests.append(
                HostRequest(
                    name=name,
                    nonce=host.nonce,
                    arguments=arguments,
                    environment=gpus,
                    log=place.supervisor_log if is_here else None,
                    cores=needs[name].cores,
                    memory_gb=needs[name].memory_gb,
                    gpus=needs[name].gpus,
                )
            )
        return Group(
            job=spec.name,
            attempt=attempt,
            epoch=placed.epoch,
            hosts=tuple(requests),
            command=tuple(self.command) if is_here else (placement.python, *_SUPERVISOR),
            environment={**self.environment, **given} if is_here else {},
            grace_seconds=spec.options.grace_seconds,
            options=spec.options.placement_options,
            image=spec.image,
            bundle="" if is_here else self._bundle(folder, spec, placed, given).to_json(),
        )

    def _bundle(
        self, folder: JobFolder, spec: JobSpec, placed: Placed, given: Mapping[str, str]
    ) -> "Bundle":
        from trackside.records.group import Bundle  # for jobs elsewhere only

        return Bundle(
            spec=spec.to_request(),
            journal=folder.journal.read_text(),
            hosts={name: host.nonce for name, host in placed.hosts.items()},
            attempt=placed.attempt,
            epoch=placed.epoch,
            environment={**self._needed_elsewhere(spec.name), **given},
        )

    def _needed_elsewhere(self, job: str) -> dict[str, str]:
        """The embedded buckets are reached through this home's server, with the job's own key."""
        from trackside.jobs.needed_environment import needed_elsewhere

        needed = needed_elsewhere(self.environment)
        if self.job_environment is None or needed.get("TRACKSIDE_S3") != "embedded":
            return needed
        return {**needed, **self.job_environment(job), "TRACKSIDE_S3": "aws"}

    def _given(self, job: str) -> dict[str, str]:
        return {} if self.job_environment is None else {GIVEN: packed(self.job_environment(job))}


def _taken_epoch(folder: JobFolder, spec: JobSpec, placed: Placed) -> int:
    """From now on no earlier group of the job publishes anything."""
    from trackside.coordination import epoch  # not for jobs on this machine

    home = folder.root.parent.parent
    uri = JobKeys.of(spec).epoch
    try:
        place = locate_object(uri, home=home, hurried=True)
        nonce = next(iter(placed.hosts.values())).nonce
        return epoch.take(place, nonce, is_first=placed.epoch == 1).epoch
    except StorageError as error:
        raise PlacementAway(f"its storage: {error}") from error


def new_group(spec: JobSpec, gpus: Sequence[str] | None = None) -> Placed:
    """A job's first group, with these GPUs of this machine for all hosts together."""
    hosts = {
        host: PlacedHost(
            nonce=new_nonce(),
            gpus=None if gpus is None else tuple(gpus[number :: len(spec.hosts)]),
        )
        for number, host in enumerate(spec.hosts)
    }
    return Placed(hosts=hosts, placement=spec.options.placement, attempt=FIRST_ATTEMPT)


def start_all(launcher: Launcher, folder: JobFolder, spec: JobSpec) -> None:
    """Start a job's first supervisors; call with the folder's lock held.

    `JobFailed` when they cannot be started: the job has ended then. While the placement is away it
    waits, and `reconcile` tries again.
    """
    try:
        launcher.start(folder, spec, Placed.read(folder) or new_group(spec))
    except PlacementAway as error:
        Journal(folder.journal).say(waiting_message(spec.options.placement, str(error)))
    except JobError as error:
        reason = f"InternalServerError: {error}"
        death = death_at_start(error)
        Journal(folder.journal).try_move(Secondary.FAILED, reason=reason, death=death)
        raise JobFailed(folder.root.name, reason) from error


def death_at_start(error: JobError) -> Death:
    """Of a job whose group could not be started: an engine refuses what it asks for by a
    `ValueError`; anything else is no fault of the job's."""
    given = error.__cause__
    code = "invalid_spec" if isinstance(given, ValueError) else error.code
    is_full = given is not None and disk_space.takes_nothing(given)
    return Death(cause=cause_of(Evidence(error=code, is_disk_full=is_full)))


def waiting_message(placement: str, why: str) -> str:
    """For a job's status, while it has no machine."""
    return f"Waiting for {placement}: {why}"[:500]


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
