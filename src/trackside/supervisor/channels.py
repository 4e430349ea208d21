"""Provides one input channel on one host: mounted, copied or piped, by its mode.

Copies go through `storage.transfer`, pipes through `pipes.py`; mounts are plain data that the
supervisor puts into the sandbox's plan. docs/channels.md has the rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trackside.files.script_folder import ScriptFolder
from trackside.records.layout import ML
from trackside.records.spec import Channel
from trackside.storage.locate import Location, locate
from trackside.storage.thread_pool import StopFlag
from trackside.storage.transfer import Progress
from trackside.supervisor.channel_objects import (
    Assignment,
    ChannelObject,
    as_files,
    below_prefix,
    fetch,
    nothing_found,
    shuffled,
)
from trackside.supervisor.manifests import manifest_lines, named_objects, sized, write_listing
from trackside.supervisor.pipes import Feeder
from trackside.supervisor.streams import Item, stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Provided:
    """What is left to do for a channel: mounts for the sandbox's plan, a feeder to run."""

    mounts: Mapping[str, Path] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    of_bucket: frozenset[str] = frozenset()
    """Of the mounts, those that show a folder of an embedded bucket."""
    notes: tuple[str, ...] = ()
    """For the job's log: where the channel is provided otherwise than requested."""
    objects: Sequence[ChannelObject] = field(default=(), compare=False)
    """What was copied; empty for a channel that is read otherwise."""
    feeder: Feeder | None = None
    """Not started yet; the caller that starts it closes it."""


def provide(
    channel: Channel,
    assignment: Assignment,
    data: Path,
    *,
    home: Path,
    can_mount: bool = True,
    can_show: Callable[[Path], bool] = lambda folder: True,
    expect: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
) -> Provided:
    """`data` is the folder that the script sees as /opt/ml/input/data. Idempotent.

    Without mounts, a user's folder becomes a link and FastFile becomes File; the latter also for a
    bucket folder that the script could not read, by `can_show`. `expect` gets the numbers of files
    and bytes to copy, before `progress` counts them.
    """
    data.mkdir(parents=True, exist_ok=True)
    if assignment.mode == "Pipe":
        items = _items(channel, home, listed_in=data)
        return Provided(feeder=_feeder(channel, assignment, ScriptFolder(data), items))
    location = locate(channel.uri, home=home)
    (data / channel.name).mkdir(exist_ok=True)
    is_fast = assignment.mode == "FastFile"
    if channel.data_type == "S3Prefix" and assignment.count == 1:
        if _is_own(location):
            return _own(channel, location, data, read_only=is_fast, can_mount=can_mount)
        if is_fast and can_mount and _is_bucket_folder(channel, location, data, home):
            assert location.local is not None
            if can_show(location.local):
                shown = _mounted(channel.name, location.local, read_only=True)
                return replace(shown, of_bucket=shown.read_only)
    objects = _files(channel, assignment, data, home)
    if expect is not None:
        expect(len(objects), sum(item.size_bytes for item in objects))
    fetch(objects, data / channel.name, progress=progress, stop=stop)
    notes = (_not_fast(channel, objects),) if is_fast else ()
    return Provided(notes=notes, objects=objects)


def feed_again(
    channel: Channel, assignment: Assignment, data: ScriptFolder, *, home: Path
) -> Feeder:
    """For a piped channel whose script is already running; the rest is in place."""
    return _feeder(channel, assignment, data, _items(channel, home))


def _feeder(
    channel: Channel,
    assignment: Assignment,
    data: ScriptFolder,
    items: Sequence[tuple[Item, ...]],
) -> Feeder:
    def epoch_stream(epoch: int) -> Iterator[bytes]:
        chosen = assignment.part(shuffled(items, channel, epoch))
        return stream(
            (part for item in chosen for part in item),
            unzip=channel.compression == "Gzip",
            records=channel.record_wrapper == "RecordIO",
        )

    return Feeder(data, channel.name, epoch_stream)


def _items(
    channel: Channel, home: Path, *, listed_in: Path | None = None
) -> list[tuple[Item, ...]]:
    """What is shuffled and distributed: objects, or lines of an augmented manifest."""
    if channel.data_type == "AugmentedManifestFile":
        return [line.values for line in manifest_lines(channel, home)]
    return [(item,) for item in _listed(channel, home, listed_in)]


def _is_own(location: Location) -> bool:
    """A path or file:// that the user named, not one of our buckets."""
    return location.local is not None and "://" not in location.uri


def _own(
    channel: Channel, location: Location, data: Path, *, read_only: bool, can_mount: bool
) -> Provided:
    source = location.local
    assert source is not None
    if next(location.store.list(location.key), None) is None:
        raise nothing_found(channel, location)
    if not source.is_file():
        return _mounted(channel.name, source, read_only)
    name = f"{channel.name}/{source.name}"
    (data / name).unlink(missing_ok=True)
    if not can_mount:
        (data / name).symlink_to(source)
        return Provided()
    (data / name).touch()  # something to mount the file over
    return _mounted(name, source, read_only)


def _is_bucket_folder(channel: Channel, location: Location, data: Path, home: Path) -> bool:
    """Whether the channel is exactly one folder of an embedded bucket."""
    if location.local is None:
        return False
    start = location.key if location.key.endswith("/") or not location.key else location.key + "/"
    return all(item.location.key.startswith(start) for item in _listed(channel, home, data))


def _mounted(name: str, source: Path, read_only: bool) -> Provided:
    place = f"{ML}/input/data/{name}"
    return Provided(mounts={place: source}, read_only=frozenset([place] if read_only else []))


def _files(channel: Channel, assignment: Assignment, data: Path, home: Path) -> list[ChannelObject]:
    """What this host has to fetch. Of an augmented manifest, its own lines are written already."""
    if channel.data_type != "AugmentedManifestFile":
        objects = shuffled(_listed(channel, home, data), channel, epoch=0)
        return as_files(channel, assignment.part(objects))
    lines = assignment.part(shuffled(manifest_lines(channel, home), channel, epoch=0))
    manifest = data / channel.name / channel.uri.rpartition("/")[2]
    manifest.write_text("".join(f"{line.text}\n" for line in lines))
    objects = [item for line in lines for item in line.objects]
    return sized(channel, as_files(channel, objects))


def _listed(channel: Channel, home: Path, data: Path | None) -> list[ChannelObject]:
    """The whole channel, also written there as a listing for the script."""
    named = named_objects if channel.data_type == "ManifestFile" else below_prefix
    objects = named(channel, home)
    if data is not None:
        write_listing(data / f"{channel.name}-manifest", channel, objects)
    return objects


def _not_fast(channel: Channel, objects: list[ChannelObject]) -> str:
    size = sum(item.size_bytes for item in objects)
    return (
        f"Channel {channel.name!r} is provided as File, not FastFile: {len(objects):,} objects, "
        f"{size / 2**20:,.1f} MiB, were copied before the start. FastFile takes a whole folder "
        "on this machine or in an embedded bucket."
    )
