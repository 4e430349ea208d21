"""Publishes a job's results: model.tar.gz and output.tar.gz of all hosts, packed while uploading.

An object appears under its final name complete or not at all; `artifacts.json` is written last.
What could not be uploaded stays on disk, and `upload_kept` uploads it later.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from trackside.coordination.choose import coordination_of
from trackside.errors import (
    ArchiveError,
    DamagedTransfer,
    DiskFull,
    EpochOver,
    InvalidKey,
    JobNotFinished,
    StorageError,
)
from trackside.files.archive import Clash, Member, Origin, pack, plan
from trackside.records.hosts import HostRecord
from trackside.records.journal import History, Journal
from trackside.records.layout import WORKING_FOLDER, JobFolder, JobKeys, profile_of
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import Location, locate_object
from trackside.supervisor.config_files import INTERMEDIATE
from trackside.supervisor.context import Context
from trackside.supervisor.host_parts import FOLDERS, MODEL, OUTPUT, HostParts, source_of
from trackside.supervisor.host_syncs import make_syncer
from trackside.supervisor.outcome import first_wrong

logger = logging.getLogger(__name__)

END_MARKER = "training_job_end.ts"
"""An empty object: the contract's marker of a complete trial."""


@dataclass(frozen=True, slots=True)
class Artifact:
    uri: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes one job: knows what is packed from where and where it goes."""

    spec: JobSpec
    folder: JobFolder
    attempt: int
    home: Path

    @property
    def hosts_here(self) -> tuple[str, ...]:
        """The hosts whose files are on this machine."""
        parts = self._parts
        return self.spec.hosts if parts is None else (parts.host,)

    def publish(self, *, model: bool, may_miss: Collection[str] = ()) -> list[Artifact]:
        """Upload everything; raises `StorageError` or `DiskFull` when a part cannot be stored.

        The files of hosts on other machines come from their parts in storage. Those of `may_miss`
        may have none: they are lost, or could not upload it.
        """
        sources = self._sources(may_miss)
        self._put_end_markers()
        keys = JobKeys.of(self.spec)
        artifacts = []
        outputs = sources[OUTPUT]
        if any(source.has_entries() for source in outputs):
            artifacts.append(self._pack(outputs, Clash.HOST_FOLDER, keys.output_data))
        if model and self.spec.output.compression == "NONE":
            artifacts.extend(self._copy_model(sources[MODEL], keys.model_folder))
        elif model:
            artifacts.append(self._pack(sources[MODEL], Clash.LAST_WINS, keys.model))
        manifest = json.dumps([asdict(artifact) for artifact in artifacts], indent=1)
        self._put(keys.artifacts, manifest.encode())
        return artifacts

    def is_empty(self, records: Mapping[str, HostRecord]) -> bool:
        """Whether the script produced nothing: no model, no output, no kept file. Captured tensors,
        curves and the log do not count.
        """
        kept = {WORKING_FOLDER, INTERMEDIATE}
        if self.spec.checkpoints:
            kept.add(self.spec.checkpoints.local_path.rstrip("/"))
        states = [
            state
            for record in records.values()
            for name, state in record.syncs.items()
            if name in kept
        ]
        if any(state.num_files or state.uploaded_bytes for state in states):
            return False
        try:
            sources = self._sources(may_miss=self.spec.hosts)
        except StorageError:
            return False  # not known of hosts on other machines
        return not any(source.has_entries() for below in FOLDERS for source in sources[below])

    def put_end(self) -> None:
        """Called last. A job that never ran has published nothing, but its readers wait too."""
        self._put_end_markers()
        self.put_journal()

    def put_journal(self) -> None:
        """Upload the journal; it is small, so it is sent whole."""
        uri = JobKeys.of(self.spec).journal
        Journal(self.folder.journal).send(partial(self._put, uri))

    def is_over(self) -> bool:
        """Whether a newer group of hosts has taken the job over: nothing is published from here."""
        try:
            if parts := self._parts:
                parts.fence.check()
        except EpochOver:
            return True
        except StorageError:
            return False  # not known
        return False

    def remove_parts(self) -> None:
        """Once everything is published."""
        if parts := self._parts:
            parts.remove()

    def _put_end_markers(self) -> None:
        """Tell readers of tensors and profiles that no more will come: they wait for nothing else.

        These folders have been uploaded completely by then.
        """
        keys = JobKeys.of(self.spec)
        if self.spec.debug_hook:
            debug = keys.under(self.spec.debug_hook.uri, "debug-output")
            self._put(f"{debug}/{END_MARKER}", b"")
        if profile := profile_of(self.spec):
            for kind in ("system", "framework"):
                self._put(f"{profile}/{kind}/{END_MARKER}", b"")

    @property
    def _parts(self) -> HostParts | None:
        """None if the hosts share a file system."""
        return HostParts.of(self.spec, self.folder, self.attempt, self.home)

    def _sources(self, may_miss: Collection[str]) -> dict[str, list[Origin]]:
        """By folder, in the order of the hosts."""
        parts = self._parts
        sources: dict[str, list[Origin]] = {below: [] for below in FOLDERS}
        for host in self.spec.hosts:
            found = self._here(host)
            if parts and host != parts.host:
                found = self._elsewhere(host, parts, may_miss)
            for below, source in found.items():
                sources[below].append(source)
        return sources

    def _here(self, host: str) -> Mapping[str, Origin]:
        folder = self.folder.host(host, self.attempt)
        found = {below: source_of(folder, host, below) for below in FOLDERS}
        return {below: source for below, source in found.items() if source is not None}

    def _elsewhere(
        self, host: str, parts: HostParts, may_miss: Collection[str]
    ) -> Mapping[str, Origin]:
        found = parts.load(host)
        if found is not None:
            return found
        if host not in may_miss:
            raise StorageError(
                f"The files of {host} are not in storage. Run `trackside upload {self.spec.name}` "
                f"on the machine of {host}, and again on that of {self.spec.hosts[0]}."
            )
        logger.warning("the results are without the files of %s, which are not in storage", host)
        return {}

    def _pack(self, sources: Sequence[Origin], clash: Clash, uri: str) -> Artifact:
        return self._store(uri, partial(pack, sources, clash=clash, warn=logger.warning))

    def _copy_model(self, sources: Sequence[Origin], uri: str) -> Iterator[Artifact]:
        """The files that would be in the archive; a link to one of them is uploaded as a copy."""
        for member in plan(sources, clash=Clash.LAST_WINS):
            if member.source.file(member, logger.warning) is not None:
                content = partial(_content, member)
                yield self._store(f"{uri}/{member.name}", content)

    def _store(self, uri: str, content: Callable[[], Iterator[bytes]]) -> Artifact:
        """`content` is called once for each try."""
        data = _Digest(iter(()))

        def digested() -> _Digest:
            nonlocal data
            data = _Digest(content())
            return data

        location = self._put_chunks(uri, digested)
        size = location.store.stat(location.key).size_bytes
        if size != data.size_bytes:
            raise DamagedTransfer(f"{uri!r} has {size} bytes where {data.size_bytes} were sent.")
        return Artifact(uri, size, data.sha256)

    def _put(self, uri: str, data: bytes) -> None:
        self._put_chunks(uri, lambda: (data,))

    def _put_chunks(self, uri: str, content: Callable[[], Iterable[bytes]]) -> Location:
        """Where hosts share nothing, only the newest group of them may do it."""
        location = self._locate(uri)
        if parts := self._parts:
            parts.fence.put(location, content)
        else:
            location.store.put(location.key, content())
        return location

    def _locate(self, uri: str) -> Location:
        return locate_object(uri, home=self.home)


def until(deadline: float, action: Callable[[], object], waiting: Callable[[str], None]) -> str:
    """Do it, with back-off until the deadline (monotonic). Returns the last error, or ''."""
    pause = 0.5
    while True:
        try:
            action()
            return ""
        except (ArchiveError, EpochOver, InvalidKey) as error:
            return str(error)  # no retry will help
        except (StorageError, DiskFull, OSError) as error:
            if time.monotonic() + pause > deadline:
                return str(error)
            waiting(str(error))
            logger.warning("upload waits: %s", error)
            time.sleep(pause)
            pause = min(pause * 2, 15.0)


def upload_part(
    context: Context, attempt: int, deadline: float, waiting: Callable[[str], None]
) -> str:
    """Upload what this host, which is not the lead, adds to the results, unless its files are the
    lead's own. Returns why that failed, or ''.
    """
    parts = HostParts.of(context.spec, context.folder, attempt, context.settings.home)
    if parts is None:
        return ""
    folder = context.folder.host(context.host, attempt)
    if error := until(deadline, partial(parts.upload, folder), waiting):
        return (
            f"{error} {context.host} keeps it in {context.folder.root}; "
            f"`trackside upload {context.spec.name}` there sends it."
        )
    return ""


def upload_kept(folder: JobFolder, settings: Settings) -> list[Artifact]:
    """Upload what a finished job kept on disk because its store could not be reached then.

    With hosts on several machines, each uploads its own, and the lead merges it afterwards.
    """
    spec = JobSpec.from_stored(folder.spec.read_bytes())
    journal = Journal(folder.journal)
    history = journal.read()
    if not history.state.is_final:
        raise JobNotFinished(
            f"Job {spec.name!r} is {history.state.secondary}: it uploads its output itself. "
            f"`trackside show {spec.name}` shows how far it is."
        )
    publisher = Publisher(spec, folder, history.attempt, settings.home)
    parts = HostParts.of(spec, folder, history.attempt, settings.home)
    hosts = publisher.hosts_here
    if not any(folder.host(host, history.attempt).ml.is_dir() for host in hosts):
        raise JobNotFinished(
            f"Job {spec.name!r} keeps nothing on disk: all of it is at {JobKeys.of(spec).prefix}."
        )
    errors = []
    for host in hosts:
        host_folder = folder.host(host, history.attempt)
        errors.append(make_syncer(spec, host_folder, host, history.attempt, settings).send_all())
    if parts and not parts.is_lead:
        parts.upload(folder.host(parts.host, history.attempt))
        artifacts = []
    else:
        artifacts = _publish_kept(publisher, folder, history, settings)
    if error := next(filter(None, errors), ""):
        raise StorageError(f"All else of job {spec.name!r} is uploaded, but: {error}")
    return artifacts


def _publish_kept(
    publisher: Publisher, folder: JobFolder, history: History, settings: Settings
) -> list[Artifact]:
    spec = publisher.spec
    coordination = coordination_of(folder, spec, spec.hosts[0], history.attempt, settings)
    is_good = first_wrong(coordination.records(), coordination.ordered_end()) is None
    artifacts = publisher.publish(model=is_good)
    journal = Journal(folder.journal)
    journal.note("uploaded", artifacts=[artifact.uri for artifact in artifacts])
    publisher.put_journal()
    publisher.remove_parts()
    return artifacts


class _Digest:
    """Passes chunks through, counting and hashing them."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            self.size_bytes += len(chunk)
            yield chunk

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def _content(member: Member) -> Iterator[bytes]:
    return member.source.file(member, logger.warning) or iter(())
