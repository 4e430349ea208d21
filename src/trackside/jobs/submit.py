"""Accepts a job: validates it against the environment and claims the name; then starts its
supervisors, or leaves it queued for a server's `scheduler.py`.

Before the claim an error leaves nothing behind; afterwards `reconcile.py` or the scheduler recovers
from a crash at any line.
"""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trackside.coordination.host_files import files_of
from trackside.errors import (
    CurvesTaken,
    DiskFull,
    JobExists,
    ObjectNotFound,
    StorageError,
    UnknownScheme,
)
from trackside.files import durable
from trackside.files.disk_space import is_full, is_read_only
from trackside.files.permissions import make_folder
from trackside.jobs import curve_claims
from trackside.jobs.channel_check import check_channels
from trackside.jobs.machine_resources import MachineResources
from trackside.jobs.reachable_locations import is_of_this_machine
from trackside.jobs.records import has_source, publish_spec, read_spec, spec_bytes
from trackside.jobs.resource_request import is_counted, needs_of
from trackside.jobs.start_supervisor import (
    FIRST_ATTEMPT,
    Launcher,
    locked,
    new_group,
    new_nonce,
    start_all,
)
from trackside.quick_dataclass import dataclass
from trackside.records.attached_process import AttachedProcess, write_caller
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.owners import local_owner
from trackside.records.spec import JobSpec
from trackside.storage.folder import FolderStore
from trackside.storage.locate import locate, locate_object

logger = logging.getLogger(__name__)

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class Submission:
    spec: JobSpec
    home: Home
    launcher: Launcher
    source: Iterable[bytes] | None = None
    """The packed code, unless it is stored already."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Other files of the job, by where they are stored."""
    claimed: Callable[[str, str], AbstractContextManager[None]] = lambda name, draft: nullcontext()
    """Claims the name across homes: see `Catalog.claimed`."""
    caller: AttachedProcess | None = None
    """The calling process, for a script that is already running."""
    uploads_channels: bool = False
    """Whether channels that are folders of this machine are uploaded: its hosts are others."""

    def submit(self) -> None:
        """Its supervisors run when this returns."""
        if self.uploads_channels and any(is_of_this_machine(each.uri) for each in self.spec.inputs):
            self._check()
            with _uploaded_channels(self.spec, self.home) as spec:
                replace(self, spec=spec, uploads_channels=False).submit()
            return
        with self._accepted(self._write_placed, self._publish) as job:
            start_all(self.launcher, job, self.spec)

    def enqueue(self, capacity: MachineResources, **who: str) -> None:
        """It is on disk and queued when this returns. `who` is noted in its journal."""
        with self._accepted(partial(self._write_queued, capacity, who), self._promise):
            pass

    @contextmanager
    def _accepted(
        self, write: Callable[[JobFolder], None], publish: Callable[[], None]
    ) -> Iterator[JobFolder]:
        """The claimed folder; no other process may start its supervisors inside the block."""
        self._check()
        with self._draft(write) as draft, locked(draft):
            with self.claimed(self.spec.name, draft.root.name):
                job = self._claim(draft)
                try:
                    self._announce(publish)
                except BaseException:
                    withdraw(job, self.home)
                    with suppress(StorageError):  # the original error matters more
                        curve_claims.release(self.spec, self.home)
                    raise
            yield job

    def _check(self) -> None:
        """Checks whose results no other process can invalidate before the claim."""
        name = self.spec.name
        if self.home.job(name).root.exists():
            raise JobExists(name)
        with _named(self.spec):
            uri = JobKeys.of(self.spec).spec
            location = locate_object(uri, home=self.home.root, hurried=True)
            try:
                location.store.stat(location.key)
            except ObjectNotFound:
                pass
            else:
                raise JobExists(name)
        for uri in _places(self.spec):
            locate(uri, home=self.home.root)  # `InvalidKey` before anything runs, not at the end
        curve_claims.check_free(self.spec, self.home)
        check_channels(self.spec, self.home)

    @contextmanager
    def _draft(self, write: Callable[[JobFolder], None]) -> Iterator[JobFolder]:
        """The job's complete folder under a hidden name; removed unless it was claimed."""
        draft = JobFolder(self.home.jobs / f".{self.spec.name}.{new_nonce()}")
        try:
            try:
                make_folder(draft.root)
                durable.create(draft.spec, spec_bytes(self.spec))
                write(draft)
                durable.sync_folder(draft.root)
            except OSError as error:
                raise _disk_full(error, self.home.root) from error
            yield draft
        finally:
            if draft.root.exists():
                shutil.rmtree(draft.root, ignore_errors=True)

    def _write_placed(self, draft: JobFolder) -> None:
        journal = Journal(draft.journal)
        journal.open(owner=local_owner())
        if self.caller is None:
            journal.note_run_as(self.launcher.run_as.choose(local_owner()))
        for host in self.spec.hosts:
            place = files_of(draft, host, FIRST_ATTEMPT)
            make_folder(place.root)
            if self.caller is not None:
                write_caller(place, self.caller)
        new_group(self.spec).write(draft)

    def _write_queued(
        self, capacity: MachineResources, who: Mapping[str, str], draft: JobFolder
    ) -> None:
        needs = needs_of(self.spec)
        if is_counted(self.spec):
            needs = needs.clipped(capacity)
        Journal(draft.journal).open_queued(f"Waiting for {needs}", **who)

    def _claim(self, draft: JobFolder) -> JobFolder:
        """Renaming onto a folder that is not empty fails: so exactly one of any number wins."""
        job = self.home.job(self.spec.name)
        try:
            os.rename(draft.root, job.root)
        except OSError as error:
            if error.errno in _TAKEN:
                raise JobExists(self.spec.name) from None
            raise
        durable.sync_folder(self.home.jobs)
        return job

    def _announce(self, publish: Callable[[], None]) -> None:
        # Before the source: if that exists, `announced` takes everything to be uploaded.
        for uri, content in self.files.items():
            location = locate_object(uri, home=self.home.root)
            location.store.put(location.key, content)
        if self.source is not None and self.spec.source is not None:
            location = locate_object(self.spec.source, home=self.home.root)
            location.store.put(location.key, self.source)
        curve_claims.claim(self.spec, self.home)
        with _named(self.spec):
            publish()

    def _publish(self) -> None:
        """Upload the spec: the lasting record, and the proof that output can be written."""
        publish_spec(self.spec, self.home)

    def _promise(self) -> None:
        """On this machine, check that it can be written: the process that starts the job writes it.

        Elsewhere only writing proves that.
        """
        location = locate_object(JobKeys.of(self.spec).spec, home=self.home.root)
        if isinstance(location.store, FolderStore):
            location.store.check_writable(location.key)
        else:
            self._publish()


@contextmanager
def _uploaded_channels(spec: JobSpec, home: Home) -> Iterator[JobSpec]:
    """Before the name is claimed, as another process starts a claimed job without its submitter.
    Removed if the job is refused."""
    from trackside.jobs.channel_upload import targets_of, uploads_of, with_uploads

    uploads = uploads_of(spec, home.root)
    try:
        for each in uploads:
            each.send()
        yield with_uploads(spec, uploads)
    except JobExists:
        raise  # they may be another job's by now
    except BaseException:
        for target in targets_of(uploads):
            with suppress(StorageError):  # the original error matters more
                target.store.delete([target.key])
        raise


def announced(folder: JobFolder, home: Home) -> bool:
    """Whether everything a job needs in storage is there now: call before its first start.

    Its submitter may have died before; one that died before the source was uploaded never reported
    that the job exists.
    """
    spec = read_spec(folder)
    try:
        with suppress(ObjectNotFound):  # an unreachable store delays us by seconds only
            location = locate_object(JobKeys.of(spec).spec, home=home.root, hurried=True)
            location.store.stat(location.key)
        if not has_source(spec, home):
            logger.warning("job %s: its submitter died before its code was stored", spec.name)
            withdraw(folder, home)
            return False
        curve_claims.claim(spec, home)
        publish_spec(spec, home)
    except CurvesTaken as error:
        logger.warning("job %s is withdrawn, as its submitter died: %s", spec.name, error)
        withdraw(folder, home)
        return False
    except StorageError as error:
        logger.warning("job %s is not started yet: %s", spec.name, error)
        return False
    return True


def anchored(spec: JobSpec) -> JobSpec:
    """With absolute paths: the supervisor works in another folder than the submitter."""
    changes: dict[str, Any] = {
        "output": replace(spec.output, uri=_absolute(spec.output.uri)),
        "inputs": tuple(replace(item, uri=_absolute(item.uri)) for item in spec.inputs),
    }
    for part in ("checkpoints", "tensorboard", "debug_hook"):
        config = getattr(spec, part)
        if config is not None:
            changes[part] = replace(config, uri=_absolute(config.uri))
    return replace(spec, **changes)


def withdraw(job: JobFolder, home: Home) -> None:
    """Withdraw a claim that was never announced: atomically frees the name."""
    hidden = home.jobs / f".{job.root.name}.{new_nonce()}"
    os.rename(job.root, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _absolute(uri: str) -> str:
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))


def _places(spec: JobSpec) -> Iterator[str]:
    """The job's other output locations."""
    parts = (spec.checkpoints, spec.tensorboard, spec.debug_hook, spec.profiler)
    for part in parts:
        if part is not None and part.uri is not None:
            yield part.uri


@contextmanager
def _named(spec: JobSpec) -> Iterator[None]:
    """State in the error that the output location cannot be used."""
    try:
        yield
    except UnknownScheme:
        raise
    except StorageError as error:
        raise type(error)(
            f"The output location {spec.output.uri!r} cannot be used: {error}"
        ) from error


def _disk_full(error: OSError, folder: Path) -> Exception:
    if is_full(error):
        return DiskFull(
            f"No space left for the job's folder in {str(folder)!r}. "
            "Free some, or set TRACKSIDE_HOME to a folder on another disk."
        )
    if is_read_only(error):
        return DiskFull(
            f"The disk of {str(folder)!r} is read-only, so that no job can be recorded there. Make "
            "it writable again, or set TRACKSIDE_HOME to a folder on another disk."
        )
    return error
