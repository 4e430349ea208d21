"""The Python version of a script and the packages it could import, as stored with its job."""

from dataclasses import dataclass, field
from pathlib import Path

from trackside.files import durable
from trackside.files.json_record import numbered_record, parsed


@dataclass(frozen=True, slots=True)
class ScriptPackages:
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    """Name to version."""


def from_bytes(data: bytes) -> ScriptPackages:
    """`DamagedRecord` when it is invalid."""
    return numbered_record(ScriptPackages, parsed(data))


def keep(folder: Path, host: str, data: bytes) -> None:
    """Copy the toolkit's file to where it is uploaded from. Raises as `from_bytes` does."""
    folder.mkdir(exist_ok=True)
    durable.write_record(folder / f"{host}.json", from_bytes(data), spends_ballast=False)
