"""Channels given by a manifest: a JSON list of objects, or JSON lines with attributes.

Also writes the `<channel>-manifest` file next to a script's channels.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trackside.errors import InputError, InvalidKey, ObjectNotFound
from trackside.files.json_record import parsed
from trackside.records.spec import Channel
from trackside.storage.locate import Location, local_path, locate
from trackside.supervisor.channel_objects import ChannelObject, nothing_found
from trackside.texts.storage_schemes import OBJECT_STORES

REQUESTS = 16
"""Sizes requested at the same time."""
LIST_FORM = 'Write a JSON list: [{"prefix": "s3://bucket/folder/"}, "name", "name", ...].'
LINES_FORM = "Write one JSON object per line."


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One line of an augmented manifest, with the attributes the channel names, in that order."""

    text: str
    values: tuple[ChannelObject | bytes, ...]

    @property
    def objects(self) -> tuple[ChannelObject, ...]:
        return tuple(value for value in self.values if isinstance(value, ChannelObject))


def named_objects(channel: Channel, home: Path) -> list[ChannelObject]:
    """The objects of a `ManifestFile`, in its order; never empty."""
    try:
        content = parsed(_text(channel, home))
    except ValueError as error:
        raise _unusable(channel, f"is no JSON ({error})", LIST_FORM) from error
    first = content[0] if isinstance(content, list) and content else None
    prefix = first.get("prefix") if isinstance(first, dict) else None
    if not isinstance(prefix, str):
        raise _unusable(channel, "does not begin with a prefix", LIST_FORM)
    names: list[str] = content[1:]
    for name in names:
        if not isinstance(name, str):
            raise _unusable(channel, f"has the entry {name!r}", LIST_FORM)
    places = _Places(channel, home)
    found = [
        ChannelObject(places.of(prefix + name), name.lstrip("/"))
        for name in names
        if not name.endswith("/")
    ]
    if not found:
        raise _unusable(channel, "names no object", LIST_FORM)
    return sized(channel, found)


def manifest_lines(channel: Channel, home: Path) -> list[ManifestLine]:
    """The lines of an `AugmentedManifestFile`; never empty. Object sizes are not known yet."""
    places = _Places(channel, home)
    found = [
        ManifestLine(line, tuple(_values(channel, number, line, places)))
        for number, line in enumerate(_text(channel, home).split("\n"), start=1)
        if line.strip()
    ]
    if not found:
        raise _unusable(channel, "has no lines", LINES_FORM)
    return found


def sized(channel: Channel, found: Sequence[ChannelObject]) -> list[ChannelObject]:
    """Query the stores for the sizes; a missing object is an `InputError`."""

    def with_size(item: ChannelObject) -> ChannelObject:
        try:
            return item.sized()
        except (ObjectNotFound, InvalidKey) as error:
            raise _unusable(
                channel, f"names {item.uri!r}, which does not exist", "Upload it or leave it out."
            ) from error

    with ThreadPoolExecutor(REQUESTS, thread_name_prefix="trackside-stat") as pool:
        try:
            return list(pool.map(with_size, found))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def write_listing(path: Path, channel: Channel, found: Sequence[ChannelObject]) -> None:
    """The channel's prefix, then the URI of each object of the whole channel."""
    prefix = channel.uri.partition("://")[2].partition("/")[2]
    path.write_text("".join(f"{line}\n" for line in [prefix, *(item.uri for item in found)]))


class _Places:
    """`locate` for many objects of few buckets: it reads the AWS settings every time.

    A manifest in a store may name objects but no files of this machine: its author may not be
    allowed to read them.
    """

    def __init__(self, channel: Channel, home: Path) -> None:
        self._channel = channel
        self._is_stored = local_path(channel.uri) is None
        self._home = home
        self._buckets: dict[str, Location] = {}

    def of(self, uri: str) -> Location:
        scheme, _, rest = uri.partition("://")
        bucket, slash, key = rest.partition("/")
        if not slash or not uri.lower().startswith(OBJECT_STORES):
            return self._elsewhere(uri)
        top = f"{scheme}://{bucket}/"
        if top not in self._buckets:
            self._buckets[top] = locate(top, home=self._home)
        return replace(self._buckets[top], key=key, uri=uri)

    def _elsewhere(self, uri: str) -> Location:
        if self._is_stored and local_path(uri) is not None:
            raise _unusable(
                self._channel,
                f"names {uri!r}, which is in no object store",
                "Upload the file, or put the manifest on this machine, too.",
            )
        return locate(uri, home=self._home)


def _values(
    channel: Channel, number: int, line: str, places: "_Places"
) -> Iterator[ChannelObject | bytes]:
    record = _record(channel, number, line)
    for attribute in channel.attributes:
        if attribute not in record:
            raise _unusable(
                channel,
                f"has no {attribute!r} in line {number}",
                "Correct the line or AttributeNames.",
            )
        value = record[attribute]
        if not attribute.endswith("-ref"):
            yield (value if isinstance(value, str) else json.dumps(value)).encode()
        elif isinstance(value, str):
            name = value.partition("://")[2] or value
            yield ChannelObject(places.of(value), name.lstrip("/"))
        else:
            raise _unusable(
                channel, f"has {value!r} for {attribute!r} in line {number}", "Write a URI there."
            )


def _record(channel: Channel, number: int, line: str) -> dict[str, Any]:
    try:
        record = parsed(line)
    except ValueError as error:
        raise _unusable(channel, f"has no JSON in line {number} ({error})", LINES_FORM) from error
    if not isinstance(record, dict):
        raise _unusable(channel, f"has {record!r} in line {number}", LINES_FORM)
    return record


def _text(channel: Channel, home: Path) -> str:
    location = locate(channel.uri, home=home)
    if not location.key:
        raise _unusable(channel, "is a folder or does not exist", "Name the manifest file itself.")
    try:
        return location.store.get(location.key).decode()
    except ObjectNotFound as error:
        raise nothing_found(channel, location) from error
    except UnicodeDecodeError as error:
        raise _unusable(channel, f"is not UTF-8 ({error})", "Write it as UTF-8.") from error


def _unusable(channel: Channel, what: str, way_out: str) -> InputError:
    return InputError(f"Channel {channel.name!r}: the manifest {channel.uri!r} {what}. {way_out}")
