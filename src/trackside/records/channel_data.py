"""What a channel consisted of when a job read it: how many files, how large, one digest over all,
and the files themselves as far as they fit.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from trackside.files import durable
from trackside.files.json_record import numbered, numbered_record, parsed
from trackside.quick_dataclass import dataclass

MOST_LISTED = 10_000
MOST_BYTES = 8 << 20
"""What a reader reads of such a file."""
_MOST_NAMES = 1 << 20
"""Characters of all names."""

File = tuple[str, int, str]
"""Its name, its size, and what changes with its content: the ETag, or the time it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelData:
    channel: str
    location: str
    num_files: int
    size_bytes: int
    digest: str
    """Over name, size and version of every file; equal if no file differs."""
    is_whole: bool = True
    """False if there are more files than were counted: then there is no digest."""
    names: list[str]
    """The first, in the order of their names; sizes and versions are in the same order."""
    sizes: list[int]
    versions: list[str]

    @property
    def files(self) -> dict[str, tuple[int, str]]:
        """Those that are listed."""
        listed = zip(self.names, self.sizes, self.versions, strict=False)
        return {name: (size, version) for name, size, version in listed}


def summary(
    channel: str, location: str, files: Iterable[File], *, is_whole: bool = True
) -> ChannelData:
    """`files` in the order of their names."""
    digest, left = sha256(), _MOST_NAMES
    count = total = 0
    listed: list[File] = []
    for name, size, version in files:
        digest.update(f"{name}\0{size}\0{version}\n".encode(errors="surrogateescape"))
        count, total, left = count + 1, total + size, left - len(name)
        if count <= MOST_LISTED and left >= 0:
            listed.append((name, size, version))
    return ChannelData(
        channel=channel,
        location=location,
        num_files=count,
        size_bytes=total,
        digest=digest.hexdigest() if is_whole else "",
        is_whole=is_whole,
        names=[name for name, _, _ in listed],
        sizes=[size for _, size, _ in listed],
        versions=[version for _, _, version in listed],
    )


def from_bytes(data: bytes) -> ChannelData:
    """`DamagedRecord` when it is invalid."""
    return numbered_record(ChannelData, parsed(data))


def write(folder: Path, data: ChannelData) -> None:
    folder.mkdir(exist_ok=True)
    content = json.dumps(numbered(data), separators=(",", ":")).encode() + b"\n"
    durable.write_bytes(folder / f"{data.channel}.json", content, spends_ballast=False, lasts=False)
