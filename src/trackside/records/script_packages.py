"""The Python version of a script and the packages it could import, as stored with its job."""

from contextlib import suppress
from dataclasses import field
from pathlib import Path

from trackside.files import durable
from trackside.files.json_record import DamagedRecord, numbered_record, parsed
from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ScriptPackages:
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    """Name to version."""


def from_bytes(data: bytes) -> ScriptPackages:
    """`DamagedRecord` when it is invalid."""
    return numbered_record(ScriptPackages, parsed(data))


def keep(folder: Path, host: str, data: bytes) -> None:
    """Copy the toolkit's file to where it is uploaded from, unless it is there. Raises as
    `from_bytes` does."""
    found, path = from_bytes(data), folder / f"{host}.json"
    with suppress(OSError, DamagedRecord):
        if from_bytes(path.read_bytes()) == found:
            return
    folder.mkdir(exist_ok=True)
    durable.write_record(path, found, spends_ballast=False)
