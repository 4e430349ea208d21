"""Uploads channels that are folders of this machine, for a job that runs on others."""

import logging
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from threading import Lock

from trackside.errors import Violation
from trackside.records.hosts import Progress
from trackside.records.layout import JobKeys
from trackside.records.spec import Channel, JobSpec
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location, locate
from trackside.storage.reach import only_here
from trackside.storage.store import Entry
from trackside.storage.transfer import upload

logger = logging.getLogger(__name__)

watched: ContextVar[Progress | None] = ContextVar("watched", default=None)
"""Set to show progress: updated while files are uploaded."""

_MUCH_BYTES = 100_000_000


class ChannelUpload:
    """A channel's files on this machine, and where in the job's own storage they go."""

    def __init__(self, spec: JobSpec, channel: Channel, home: Path) -> None:
        place = locate(channel.uri, home=home)
        assert isinstance(place.store, FolderStore)
        self._given = channel
        self._root = place.store.root
        self._entries = [*place.store.list(place.key)]
        self._folder = locate(JobKeys.of(spec).input(channel.name), home=home)
        self.targets = {entry.key: self._folder.child(entry.key) for entry in self._entries}
        self.channel = replace(channel, uri=f"{self._folder}/{place.key}")
        """As the job finds it."""

    def send(self) -> None:
        if sum(entry.size_bytes for entry in self._entries) > _MUCH_BYTES:
            advice = "an s3:// location is brought once, and not with each job"
            logger.warning("bringing %r to %s; %s", self._given.uri, self._folder, advice)
        meter = _Meter(watched.get() or Progress())
        meter.begin(f"bringing {self._given.name}", self._entries)
        files = ((self._root / key, target.key) for key, target in self.targets.items())
        upload(self._folder.store, files, progress=meter)


def is_of_this_machine(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def uploads_of(spec: JobSpec, home: Path) -> list[ChannelUpload]:
    return [ChannelUpload(spec, each, home) for each in spec.inputs if is_of_this_machine(each.uri)]


def with_uploads(spec: JobSpec, uploads: Sequence[ChannelUpload]) -> JobSpec:
    """The spec for the job's hosts: with the new locations of this machine's channels."""
    moved = {each.channel.name: each.channel for each in uploads}
    return replace(spec, inputs=tuple(moved.get(each.name, each) for each in spec.inputs))


def targets_of(uploads: Sequence[ChannelUpload]) -> list[Location]:
    return [target for each in uploads for target in each.targets.values()]


def locations_of(spec: JobSpec) -> dict[str, str]:
    """Where the job reads and writes, except for its channels, by the member of the request.
    Locations below the output by default are not listed separately."""
    output = spec.output.uri
    parts = {
        "CheckpointConfig.S3Uri": spec.checkpoints,
        "TensorBoardOutputConfig.S3OutputPath": spec.tensorboard,
        "DebugHookConfig.S3OutputPath": spec.debug_hook,
        "ProfilerConfig.S3OutputPath": spec.profiler,
    }
    uris = {member: part.uri for member, part in parts.items() if part is not None}
    uris["HyperParameters.sagemaker_submit_directory"] = spec.source
    others = {member: uri for member, uri in uris.items() if uri and not uri.startswith(output)}
    return {"OutputDataConfig.S3OutputPath": output, **others}


def unreachable(
    spec: JobSpec,
    home: Path,
    *,
    buckets_url: str = "",
    has_loopback: bool = False,
    uploads_channels: bool = True,
) -> Iterator[Violation]:
    """Locations that only this machine reaches, of a job whose hosts are others: see `only_here`.
    Channels that are uploaded may be anywhere."""
    located = locations_of(spec)
    for number, channel in enumerate(spec.inputs):
        if not (uploads_channels and is_of_this_machine(channel.uri)):
            located[f"InputDataConfig[{number}].DataSource.S3DataSource.S3Uri"] = channel.uri
    for member, uri in located.items():
        if why := only_here(uri, home, buckets_url=buckets_url, has_loopback=has_loopback):
            yield Violation(member, uri, f"{why}, and {spec.options.placement} {_WAY_OUT}")


_WAY_OUT = (
    "runs jobs on others; give an s3:// location and set AWS_ENDPOINT_URL_S3 to a store that they "
    "reach, or submit to a `trackside server` with an address that they reach (--advertise)"
)


class _Meter:
    """Counts what several threads have uploaded, to show progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()

    def begin(self, what: str, entries: Sequence[Entry]) -> None:
        self._progress.what = what
        self._progress.done_files = self._progress.done_bytes = 0
        self._progress.num_files = len(entries)
        self._progress.size_bytes = sum(entry.size_bytes for entry in entries)

    def add(self, num_files: int, size_bytes: int) -> None:
        with self._lock:
            self._progress.done_files += num_files
            self._progress.done_bytes += size_bytes
