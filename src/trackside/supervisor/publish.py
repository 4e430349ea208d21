"""Publishes a job's results: model.tar.gz and output.tar.gz of all hosts, packed while uploading.

An object appears under its final name complete or not at all; `artifacts.json` is written last.
What could not be uploaded stays on disk, and `upload_kept` uploads it later.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from trackside.coordination.choose import coordination_of
from trackside.errors import (
    ArchiveError,
    DamagedTransfer,
    DiskFull,
    InvalidKey,
    JobNotFinished,
    StorageError,
)
from trackside.files.archive import Clash, Source, pack, plan
from trackside.files.script_folder import ScriptFolder
from trackside.records.hosts import HostRecord
from trackside.records.journal import Journal
from trackside.records.layout import WORKING_FOLDER, HostFolder, JobFolder, JobKeys, profile_of
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import Location, locate_object
from trackside.supervisor.config_files import INTERMEDIATE
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

    def publish(self, *, model: bool) -> list[Artifact]:
        """Upload everything; raises `StorageError` or `DiskFull` when a part cannot be stored."""
        self._put_end_markers()
        keys = JobKeys.of(self.spec)
        artifacts = []
        sources = self._sources("output/data")
        if any(_has_files(source.opened) for source in sources):
            artifacts.append(self._pack(sources, Clash.HOST_FOLDER, keys.output_data))
        if model and self.spec.output.compression == "NONE":
            artifacts.extend(self._copy_model(keys.model_folder))
        elif model:
            artifacts.append(self._pack(self._sources("model"), Clash.LAST_WINS, keys.model))
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
        sources = [*self._sources("model"), *self._sources("output/data")]
        return not any(_has_files(source.opened) for source in sources)

    def put_end(self) -> None:
        """Called last. A job that never ran has published nothing, but its readers wait too."""
        self._put_end_markers()
        self.put_journal()

    def put_journal(self) -> None:
        """Upload the journal; it is small, so it is sent whole."""
        place = self._locate(JobKeys.of(self.spec).journal)
        Journal(self.folder.journal).send(partial(place.store.put, place.key))

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

    def _hosts(self) -> list[HostFolder]:
        return [self.folder.host(host, self.attempt) for host in self.spec.hosts]

    def _sources(self, below: str) -> list[Source]:
        found = []
        for host, folder in zip(self.spec.hosts, self._hosts(), strict=True):
            source = folder.script_folder(folder.ml / below)
            if source.is_dir():
                seen_as = f"/opt/ml/{below}"
                found.append(Source(source.path, host, seen_as=seen_as, script_folder=source))
            elif source.path.is_symlink():
                logger.warning("%r is left out: it is a link", str(source.path))
        return found

    def _pack(self, sources: list[Source], clash: Clash, uri: str) -> Artifact:
        digest = _Digest(pack(sources, clash=clash, warn=logger.warning))
        return self._store(uri, digest)

    def _copy_model(self, uri: str) -> Iterator[Artifact]:
        """The files that would be in the archive; a link to one of them is uploaded as a copy."""
        sources = self._sources("model")
        roots = [(source.path.resolve(), source.opened) for source in sources]
        for member in plan(sources, clash=Clash.LAST_WINS):
            path = member.path.resolve()
            if not path.is_file():
                continue
            inside = [(root, folder) for root, folder in roots if path.is_relative_to(root)]
            if not inside:
                logger.warning("%r is left out: it leads outside the folder", str(member.path))
                continue
            root, folder = inside[0]
            chunks = _read(folder, str(path.relative_to(root)))
            yield self._store(f"{uri}/{member.name}", _Digest(chunks))

    def _store(self, uri: str, data: "_Digest") -> Artifact:
        location = self._locate(uri)
        location.store.put(location.key, data)
        size = location.store.stat(location.key).size_bytes
        if size != data.size_bytes:
            raise DamagedTransfer(f"{uri!r} has {size} bytes where {data.size_bytes} were sent.")
        return Artifact(uri, size, data.sha256)

    def _put(self, uri: str, data: bytes) -> None:
        location = self._locate(uri)
        location.store.put(location.key, data)

    def _locate(self, uri: str) -> Location:
        return locate_object(uri, home=self.home)


def until(deadline: float, action: Callable[[], object], waiting: Callable[[str], None]) -> str:
    """Do it, with back-off until the deadline (monotonic). Returns the last error, or ''."""
    pause = 0.5
    while True:
        try:
            action()
            return ""
        except (ArchiveError, InvalidKey) as error:
            return str(error)  # no retry will help
        except (StorageError, DiskFull, OSError) as error:
            if time.monotonic() + pause > deadline:
                return str(error)
            waiting(str(error))
            logger.warning("upload waits: %s", error)
            time.sleep(pause)
            pause = min(pause * 2, 15.0)


def upload_kept(folder: JobFolder, settings: Settings) -> list[Artifact]:
    """Upload what a finished job kept on disk because its store could not be reached then."""
    spec = JobSpec.from_stored(folder.spec.read_bytes())
    journal = Journal(folder.journal)
    history = journal.read()
    if not history.state.is_final:
        raise JobNotFinished(
            f"Job {spec.name!r} is {history.state.secondary}: it uploads its output itself. "
            f"`trackside show {spec.name}` shows how far it is."
        )
    publisher = Publisher(spec, folder, history.attempt, settings.home)
    if not any(folder.host(host, history.attempt).ml.is_dir() for host in spec.hosts):
        raise JobNotFinished(
            f"Job {spec.name!r} keeps nothing on disk: all of it is at {JobKeys.of(spec).prefix}."
        )
    errors = []
    for host in spec.hosts:
        host_folder = folder.host(host, history.attempt)
        errors.append(make_syncer(spec, host_folder, host, history.attempt, settings).send_all())
    lead = coordination_of(folder, spec, spec.hosts[0], history.attempt, settings)
    is_good = first_wrong(lead.records(), lead.ordered_end()) is None
    artifacts = publisher.publish(model=is_good)
    journal.note("uploaded", artifacts=[artifact.uri for artifact in artifacts])
    publisher.put_journal()
    if error := next(filter(None, errors), ""):
        raise StorageError(f"All else of job {spec.name!r} is uploaded, but: {error}")
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


def _read(folder: ScriptFolder, path: str, size: int = 4 << 20) -> Iterator[bytes]:
    with open(folder.open(path), "rb") as file:
        while data := file.read(size):
            yield data


def _has_files(folder: ScriptFolder) -> bool:
    with folder.entries() as entries:
        return bool(entries)
