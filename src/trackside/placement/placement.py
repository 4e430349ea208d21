"""The placement seam: where a supervisor runs. `local.py` is this machine."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trackside.quick_dataclass import dataclass

Handle = dict[str, Any]
"""JSON-safe; finds the supervisor again after any restart of ours."""


@dataclass(frozen=True, slots=True)
class Running:
    pass


@dataclass(frozen=True, slots=True)
class Exited:
    code: int | None
    """None when it is gone and its exit code was not collected."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Its state could not be read. Never a reason to fail a job."""

    reason: str


Poll = Running | Exited | Unknown


class Placement(ABC):
    """Runs supervisors somewhere. Every call returns promptly; none waits for the job."""

    name: ClassVar[str]

    @abstractmethod
    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, nonce: str, log: Path
    ) -> Handle:
        """Start it detached with exactly this environment; it outlives the caller."""

    @abstractmethod
    def poll(self, handle: Handle) -> Poll:
        """Never raises for a supervisor that has ended."""

    @abstractmethod
    def stop(self, handle: Handle, *, force: bool = False) -> None:
        """Ask once. One that is already gone is success."""
