"""Which event files of a host's working folder are kept, as curves: the supervisor's list.

They are stored once, in the chunks that `curves` reads; all other files are stored whole.
"""

from dataclasses import field
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.files.json_record import numbered_record, parsed
from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptList:
    host: str
    events: list[str] = field(default_factory=list)
    """Their paths below the working folder."""


def write(path: Path, kept: KeptList) -> None:
    path.parent.mkdir(exist_ok=True)
    durable.write_record(path, kept)


def read(path: Path) -> KeptList | None:
    """None before there are any."""
    return damaged_files.read(KeptList, path)


def from_bytes(data: bytes) -> KeptList:
    """As stored. `DamagedRecord` when it is invalid."""
    return numbered_record(KeptList, parsed(data))
