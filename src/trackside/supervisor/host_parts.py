"""The parts of a job's results that hosts on other machines upload, and the lead merges.

Below `coordination/<epoch>/parts/<host>`: a tar of each folder that has anything, then the listing.
They are removed when the results are published.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, field
from functools import partial
from pathlib import Path

from trackside.coordination.epoch import Fence
from trackside.errors import DamagedTransfer, ObjectChanged, ObjectNotFound
from trackside.files.archive import Source
from trackside.files.archive_part import PartMember, PartSource, PartWriter
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.quick_dataclass import dataclass
from trackside.records.group import read_group
from trackside.records.layout import HostFolder, JobFolder, JobKeys
from trackside.records.spec import JobSpec
from trackside.storage.locate import Location, entries_below, locate, locate_object

logger = logging.getLogger(__name__)

FORMAT = 1
MODEL, OUTPUT = "model", "output/data"
FOLDERS = (MODEL, OUTPUT)
"""Below /opt/ml."""
_LISTING = "listing.jsonl"


@dataclass(frozen=True, slots=True)
class _PartFolder:
    has_entries: bool
    num_members: int = 0
    etag: str | None = None
    """Of its tar, if it has any members."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The first line of a listing; a line for each member of each folder follows."""

    host: str
    attempt: int
    folders: dict[str, _PartFolder] = field(default_factory=dict)
    """Those that exist, in the order of their members."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class HostParts:
    """Of one job whose hosts share no files."""

    spec: JobSpec
    host: str
    """The host that this process is on."""
    attempt: int
    epoch: int
    home: Path

    @classmethod
    def of(cls, spec: JobSpec, folder: JobFolder, attempt: int, home: Path) -> "HostParts | None":
        """None if the hosts share a file system."""
        group = read_group(folder)
        if group is None or group.shares_files:
            return None
        return cls(spec, group.host, attempt, group.epoch, home)

    @property
    def is_lead(self) -> bool:
        return self.host == self.spec.hosts[0]

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(host for host in self.spec.hosts if host != self.host)

    @property
    def fence(self) -> Fence:
        return Fence(locate_object(JobKeys.of(self.spec).epoch, home=self.home), self.epoch)

    def upload(self, folder: HostFolder) -> list[str]:
        """Upload this host's part; returns where it is. May be repeated at any time."""
        self.fence.check()  # a stale part would hurt nobody, but take long
        listing = _Listing(self.host, self.attempt)
        rows: list[str] = []
        uris: list[str] = []
        for below in FOLDERS:
            source = source_of(folder, self.host, below)
            if source is None:
                continue
            writer = PartWriter(source, logger.warning)
            found = _PartFolder(source.has_entries())
            if found.has_entries:
                tar = self._place(self.host, _tar_name(below))
                etag = tar.store.put(tar.key, writer.chunks()).etag
                found = _PartFolder(found.has_entries, len(writer.members), etag)
                uris.append(tar.uri)
            listing.folders[below] = found
            rows.extend(member.to_json() for member in writer.members)
        text = "\n".join([json.dumps(asdict(listing)), *rows, ""])
        place = self._place(self.host, _LISTING)
        place.store.put(place.key, text.encode())
        return [*uris, place.uri]

    def load(self, host: str) -> dict[str, PartSource] | None:
        """A host's folders; None if it has not uploaded its part of this attempt."""
        place = self._place(host, _LISTING)
        try:
            lines = place.store.get(place.key).splitlines()
            listing = record(_Listing, parsed_object(lines[0] if lines else b""))
            if listing.attempt != self.attempt:
                return None
            return dict(self._sources(listing, lines[1:]))
        except ObjectNotFound:
            return None
        except DamagedRecord as error:
            raise DamagedTransfer(f"{place.uri!r} is damaged: {error}.") from error

    def missing(self) -> list[str]:
        """Other hosts without a part."""
        return [host for host in self.others if self.load(host) is None]

    def remove(self) -> None:
        """All hosts' parts, this host's listings last."""
        place = locate(JobKeys.of(self.spec).parts(self.epoch), home=self.home)
        found = [place.child(path).key for path, _ in entries_below(place)]
        listings = [key for key in found if key.endswith(f"/{_LISTING}")]
        place.store.delete(sorted(set(found) - set(listings)))
        place.store.delete(listings)

    def _sources(self, listing: _Listing, lines: list[bytes]) -> Iterator[tuple[str, PartSource]]:
        start = 0
        for below, folder in listing.folders.items():
            end = start + folder.num_members
            if end > len(lines):
                raise DamagedRecord("it is shorter than its first line says")
            members = map(PartMember.parse, lines[start:end])
            start = end
            read = partial(self._read, self._place(listing.host, _tar_name(below)), folder.etag)
            yield below, PartSource(listing.host, members, read, has_entries=folder.has_entries)

    def _read(self, tar: Location, etag: str | None, start: int) -> Iterator[bytes]:
        try:
            yield from tar.store.read(tar.key, start, etag=etag)
        except ObjectChanged as error:
            raise DamagedTransfer(f"{tar.uri!r} is not the one that its listing is of.") from error

    def _place(self, host: str, file: str) -> Location:
        return locate_object(JobKeys.of(self.spec).part(self.epoch, host, file), home=self.home)


def source_of(folder: HostFolder, host: str, below: str) -> Source | None:
    """One of `FOLDERS` of a host whose files are here; None when there is no such folder."""
    source = folder.script_folder(folder.ml / below)
    if source.is_dir():
        return Source(source.path, host, seen_as=f"/opt/ml/{below}", script_folder=source)
    if source.path.is_symlink():
        logger.warning("%r is left out: it is a link", str(source.path))
    return None


def _tar_name(below: str) -> str:
    return f"{below.partition('/')[0]}.tar"
