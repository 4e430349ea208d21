"""The machine of one host, as stored with its job."""

from dataclasses import field
from pathlib import Path

from trackside.files import durable
from trackside.files.json_record import numbered_record, parsed
from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    facts: dict[str, str] = field(default_factory=dict)
    """By name: host, processor, cores, memory, gpus, driver, kernel, distribution, …"""


def from_bytes(data: bytes) -> Machine:
    """`DamagedRecord` when it is invalid."""
    return numbered_record(Machine, parsed(data))


def write(path: Path, machine: Machine) -> None:
    """Waits for no disk: it is written before most of what a job needs."""
    path.parent.mkdir(exist_ok=True)
    durable.write_record(path, machine, spends_ballast=False, lasts=False)
