"""Uploads a job's local files to where the server's jobs find them."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from trackside.errors import InvalidSpec, JobExists, ObjectNotFound, StorageError, Violation
from trackside.jobs.channel_check import check_channels
from trackside.records.hosts import Progress
from trackside.records.layout import Home, JobKeys
from trackside.records.spec import Channel, JobSpec
from trackside.remote.api_client import ApiClient
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location, locate, locate_object
from trackside.storage.store import Entry
from trackside.storage.transfer import upload

logger = logging.getLogger(__name__)

watched: ContextVar[Progress | None] = ContextVar("watched", default=None)
"""Set to show progress: updated while files are uploaded."""

_MUCH_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class JobUploads:
    """One job's uploads: its spec as written on this machine, the packed code, and other files."""

    spec: JobSpec
    client: ApiClient
    home: Path
    source: Iterable[bytes] | None
    files: Mapping[str, bytes]
    _sent: list[Location] = field(default_factory=list)

    def check(self) -> None:
        """`InvalidSpec`, `InputError` or `JobExists` before anything is sent."""
        if wrong := [*_local_paths(self.spec, self.client.url), *_no_text(self.spec)]:
            raise InvalidSpec(wrong)
        here = replace(self.spec, inputs=tuple(filter(_is_here, self.spec.inputs)))
        check_channels(here, Home(self.home))
        self._check_unused()

    def upload(self) -> JobSpec:
        """Returns the spec for the server: with the new locations of this machine's channels."""
        for uri, content in self.files.items():
            self._send(uri, content)
        inputs = tuple(map(self._uploaded, self.spec.inputs))
        if self.source is not None and self.spec.source is not None:
            self._send(self.spec.source, self.source)
        return replace(self.spec, inputs=inputs)

    def take_back(self) -> None:
        """Remove everything uploaded for a job that was refused."""
        for place in self._sent:
            with suppress(StorageError):  # the refusal matters more
                place.store.delete([place.key])

    def _check_unused(self) -> None:
        """Code is uploaded before the name is claimed: another job's code must not be replaced."""
        place = locate_object(JobKeys.of(self.spec).spec, home=self.home, hurried=True)
        try:
            found = [entry.key for entry in place.store.list(place.key)]
        except ObjectNotFound:
            scheme, _, bucket, *_ = place.uri.split("/")
            if scheme != "s3:":
                raise
            self.client.make_bucket(bucket)
            return
        if place.key in found:
            raise JobExists(self.spec.name)

    def _send(self, uri: str, content: bytes | Iterable[bytes]) -> None:
        place = locate_object(uri, home=self.home)
        self._sent.append(place)
        place.store.put(place.key, content)

    def _uploaded(self, channel: Channel) -> Channel:
        if not _is_here(channel):
            return channel
        place = locate(channel.uri, home=self.home)
        assert isinstance(place.store, FolderStore)
        root, entries = place.store.root, [*place.store.list(place.key)]
        folder = locate(JobKeys.of(self.spec).input(channel.name), home=self.home)
        targets = {entry.key: folder.child(entry.key) for entry in entries}
        if sum(entry.size_bytes for entry in entries) > _MUCH_BYTES:
            advice = "an s3:// location is brought once, and not with each job"
            logger.warning("bringing %r to %s; %s", channel.uri, folder, advice)
        self._sent.extend(targets.values())
        meter = _Meter(watched.get() or Progress())
        meter.begin(f"bringing {channel.name}", entries)
        files = ((root / key, target.key) for key, target in targets.items())
        upload(folder.store, files, progress=meter)
        return replace(channel, uri=f"{folder}/{place.key}")


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


def _is_here(channel: Channel) -> bool:
    return _is_of_this_machine(channel.uri)


def _is_of_this_machine(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def _no_text(spec: JobSpec) -> Iterator[Violation]:
    """Arguments with bytes that JSON cannot represent."""
    for member, words in (
        ("Trackside.Arguments", spec.options.arguments),
        ("Trackside.Command", spec.options.command),
    ):
        for index, word in enumerate(words):
            if any("\ud800" <= character <= "\udfff" for character in word):
                advice = "is no UTF-8, which a job at a server needs"
                yield Violation(f"{member}[{index}]", word, advice)


def _local_paths(spec: JobSpec, url: str) -> Iterator[Violation]:
    """Locations below the output by default are not listed separately."""
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
    for member, uri in {"OutputDataConfig.S3OutputPath": output, **others}.items():
        if _is_of_this_machine(uri):
            advice = f"is of this machine, and the job runs at {url}; give an s3:// location"
            yield Violation(member, uri, advice)
