"""Which Python a script ran with, and which packages it could import, as kept with its job."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from trackside.files import durable
from trackside.files.json_record import parsed, record


@dataclass(frozen=True, slots=True)
class ScriptPackages:
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    """Name to version."""


def from_bytes(data: bytes) -> ScriptPackages:
    """`DamagedRecord` when it is something else."""
    return record(ScriptPackages, parsed(data))


def keep(folder: Path, host: str, data: bytes) -> None:
    """What the toolkit wrote, where it is sent from. Raises as `from_bytes` does."""
    folder.mkdir(exist_ok=True)
    durable.write_json(folder / f"{host}.json", asdict(from_bytes(data)), spends_ballast=False)
