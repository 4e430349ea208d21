"""Lists a channel's objects: which, in which order, under which names, on which host.

This module handles prefixes and the common part; `manifests.py` reads manifests, `channels.py`
fetches.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from trackside.errors import InputError
from trackside.records.spec import Channel, JobSpec
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry, Store
from trackside.storage.thread_pool import StopFlag
from trackside.storage.transfer import Progress, download

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ChannelObject:
    """An object and its name in the channel's folder."""

    location: Location
    name: str
    entry: Entry | None = None
    """None until `sized`: a manifest does not say how large its objects are."""

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def size_bytes(self) -> int:
        assert self.entry is not None
        return self.entry.size_bytes

    def sized(self) -> "ChannelObject":
        if self.entry is not None:
            return self
        return replace(self, entry=self.location.store.stat(self.location.key))

    def read(self, start: int, end: int) -> bytes:
        etag = self.entry.etag if self.entry is not None else None
        store, key = self.location.store, self.location.key
        return store.get(key, start, end, etag=etag) if start < end else b""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A channel on one host: how it is read there, and which part of it is the host's."""

    mode: str
    index: int = 0
    count: int = 1

    def part(self, items: Sequence[_T]) -> list[_T]:
        """Every `count`-th: the same each time, and the hosts' parts differ by one at most."""
        return list(items[self.index :: self.count])


def assign(spec: JobSpec, channel: Channel, host: str) -> Assignment | None:
    """None when the channel is for instance groups that this host does not belong to."""
    hosts = receivers(spec, channel)
    if host not in hosts:
        return None
    mode = channel.input_mode or spec.algorithm.input_mode
    if channel.distribution == "ShardedByS3Key":
        return Assignment(mode, hosts.index(host), len(hosts))
    return Assignment(mode)


def below_prefix(channel: Channel, home: Path) -> list[ChannelObject]:
    """The objects whose keys start with the channel's prefix, by key bytes; never empty.

    If an object has exactly that key, only it is meant.
    """
    location = locate(channel.uri, home=home)
    prefix = location.key
    found = []
    for entry in location.store.list(prefix):
        exact = entry.key == prefix
        name = prefix.rpartition("/")[2] if exact else entry.key[len(prefix) :].lstrip("/")
        place = replace(location, key=entry.key, uri=_with_key(location, entry.key))
        found.append(ChannelObject(place, name, entry))
        if exact:  # it is the first in order
            break
    if not found:
        raise nothing_found(channel, location)
    return found


def shuffled(items: Sequence[_T], channel: Channel, epoch: int) -> list[_T]:
    """The order of this epoch: the same on all hosts, so that their parts never overlap."""
    order = list(items)
    if channel.shuffle_seed is not None:
        random.Random(f"{channel.shuffle_seed}/{epoch}").shuffle(order)
    return order


def as_files(channel: Channel, found: Iterable[ChannelObject]) -> list[ChannelObject]:
    """Each object once; `InputError` unless all can be files below the channel's folder."""
    by_name: dict[str, ChannelObject] = {}
    for item in found:
        if any(part in ("", ".", "..") for part in item.name.split("/")) or "\0" in item.name:
            raise InputError(
                f"Channel {channel.name!r}: {item.uri!r} has no place in the channel's folder, "
                f"its name there would be {item.name!r}. Rename the object."
            )
        if by_name.setdefault(item.name, item).uri != item.uri:
            raise _clash(channel, by_name[item.name], item)
    for item in by_name.values():
        parts = item.name.split("/")
        for depth in range(1, len(parts)):
            if (other := by_name.get("/".join(parts[:depth]))) is not None:
                raise _clash(channel, other, item)
    return list(by_name.values())


def fetch(
    found: Iterable[ChannelObject],
    folder: Path,
    *,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
) -> None:
    """Copy them into the folder, each under its name. A repeated call fetches what is missing."""
    by_store: dict[Store, list[tuple[Entry, Path]]] = {}
    for item in found:
        assert item.entry is not None
        wanted = by_store.setdefault(item.location.store, [])
        wanted.append((item.entry, folder / item.name))
    for store, wanted in by_store.items():
        download(store, wanted, progress=progress, stop=stop)


def nothing_found(channel: Channel, location: Location) -> InputError:
    if "://" not in location.uri:
        return InputError(
            f"Channel {channel.name!r}: there are no files at {location.uri!r}. "
            "Check the path, or put the data there."
        )
    where = ""
    if location.local is not None:
        where = f" Buckets are folders here until an S3 endpoint is set: {str(location.local)!r}."
    return InputError(
        f'No S3 objects found under S3 URL "{location.uri}" given in input data source '
        f"of channel {channel.name!r}. Check bucket and prefix, or upload the data first.{where}"
    )


def receivers(spec: JobSpec, channel: Channel) -> list[str]:
    """Hosts are numbered through the groups in the order of the request."""
    if not channel.instance_groups:
        return list(spec.hosts)
    names = [group.name for group in spec.resources.groups for _ in range(group.count)]
    pairs = zip(spec.hosts, names, strict=True)
    return [host for host, name in pairs if name in channel.instance_groups]


def _with_key(location: Location, key: str) -> str:
    """The location's URI with another key instead of its own, in which it ends."""
    if location.key:
        return location.uri.removesuffix(location.key) + key
    return f"{location.uri.rstrip('/')}/{key}"


def _clash(channel: Channel, one: ChannelObject, other: ChannelObject) -> InputError:
    return InputError(
        f"Channel {channel.name!r}: {one.uri!r} and {other.uri!r} would be the same file, or one "
        "a folder of the other. Rename one of them, or use Pipe mode."
    )
