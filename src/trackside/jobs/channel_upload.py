"""Uploads channels that are folders of this machine, for a job that runs on others."""

import logging
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from threading import Lock

from trackside.jobs.reachable_locations import is_of_this_machine
from trackside.records.hosts import Progress
from trackside.records.layout import JobKeys
from trackside.records.spec import Channel, JobSpec
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location, locate
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


def uploads_of(spec: JobSpec, home: Path) -> list[ChannelUpload]:
    return [ChannelUpload(spec, each, home) for each in spec.inputs if is_of_this_machine(each.uri)]


def with_uploads(spec: JobSpec, uploads: Sequence[ChannelUpload]) -> JobSpec:
    """The spec for the job's hosts: with the new locations of this machine's channels."""
    moved = {each.channel.name: each.channel for each in uploads}
    return replace(spec, inputs=tuple(moved.get(each.name, each) for each in spec.inputs))


def targets_of(uploads: Sequence[ChannelUpload]) -> list[Location]:
    return [target for each in uploads for target in each.targets.values()]


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
