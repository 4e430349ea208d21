"""Records what the channels of a job consist of, in a thread while its script runs: a listing may
take longer than the script's start should.

One host records each channel: the first that gets it. Nothing here fails a job.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

from trackside.errors import TracksideError
from trackside.records import channel_data
from trackside.records.channel_data import ChannelData, File
from trackside.records.layout import HostFolder, JobKeys
from trackside.records.spec import Channel, JobSpec
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry
from trackside.supervisor.channel_objects import ChannelObject, receivers
from trackside.supervisor.manifests import named_objects

logger = logging.getLogger(__name__)

MOST_FILES = 1_000_000
MOST_SECONDS = 120.0
"""For one channel: what is larger is recorded without a digest."""
END_SECONDS = 5.0
"""How long the end of a script waits for it."""


class DataLists:
    def __init__(
        self,
        spec: JobSpec,
        host: str,
        folder: HostFolder,
        home: Path,
        copied: Mapping[str, Sequence[ChannelObject]],
    ) -> None:
        """`copied` has the objects of channels that are known already."""
        self._spec = spec
        self._folder = folder.data_lists
        self._home = home
        self._copied = dict(copied)
        self._channels = [
            each for each in spec.inputs if next(iter(receivers(spec, each)), None) == host
        ]
        self._stop = Event()
        self._thread = Thread(target=self._run, name="trackside-data", daemon=True)

    def __enter__(self) -> "DataLists":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits briefly for a listing that is nearly complete."""
        self._thread.join(END_SECONDS)
        self._stop.set()

    def _run(self) -> None:
        for channel in self._channels:
            if (self._folder / f"{channel.name}.json").exists():
                continue  # by an earlier supervisor
            try:
                if (found := self._summary(channel)) is not None:
                    channel_data.write(self._folder, found)
            except (TracksideError, OSError) as error:
                logger.warning("the files of channel %s are not recorded: %s", channel.name, error)

    def _summary(self, channel: Channel) -> ChannelData | None:
        """None when the script's end does not wait for it."""
        limit = _Limit(self._stop)
        data = channel_data.summary(channel.name, channel.uri, limit.within(self._files(channel)))
        if self._stop.is_set():
            return None
        return replace(data, digest="", is_whole=False) if limit.was_reached else data

    def _files(self, channel: Channel) -> Iterator[File]:
        """In the order of their names. Of an augmented manifest, the manifest itself, which
        contains the labels."""
        # Uploaded for this job alone: when it was written says nothing about its content.
        is_copy = channel.uri.startswith(JobKeys.of(self._spec).input(channel.name))
        objects = self._copied.pop(channel.name, None)
        if objects is None and channel.data_type == "ManifestFile":
            objects = named_objects(channel, self._home)
        if objects is None or channel.data_type == "AugmentedManifestFile":
            yield from _below(locate(channel.uri, home=self._home), is_copy=is_copy)
            return
        for item in sorted(objects, key=lambda item: item.name):
            assert item.entry is not None
            yield item.name, item.entry.size_bytes, _version(item.location, item.entry, is_copy)


class _Limit:
    """Ends a listing that is too long, or that nobody waits for any more."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._deadline = time.monotonic() + MOST_SECONDS
        self.was_reached = False

    def within(self, files: Iterator[File]) -> Iterator[File]:
        for number, file in enumerate(files):
            is_late = self._stop.is_set() or time.monotonic() > self._deadline
            if number >= MOST_FILES or is_late:
                self.was_reached = True
                return
            yield file


def _below(location: Location, *, is_copy: bool) -> Iterator[File]:
    """As `channel_objects.below_prefix` names them, one at a time."""
    prefix = location.key
    for entry in location.store.list(prefix):
        is_exact = entry.key == prefix
        name = prefix.rpartition("/")[2] if is_exact else entry.key[len(prefix) :].lstrip("/")
        yield name, entry.size_bytes, _version(location, entry, is_copy)
        if is_exact:
            return


def _version(location: Location, entry: Entry, is_copy: bool) -> str:
    """The ETag of a store; of a folder the time, as a copy of a file has another ETag there."""
    if location.local is None and entry.etag is not None:
        return entry.etag
    return "" if is_copy else f"{entry.modified:.6f}"
