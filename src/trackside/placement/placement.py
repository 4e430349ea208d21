"""The placement seam: where a job's supervisors run. `local.py` is this machine.

A placement is asked for all hosts of a job at once, and starts all of them or none.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from trackside.quick_dataclass import dataclass
from trackside.records.placed import Handle as Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest:
    """One host of a group."""

    name: str
    nonce: str
    """In the environment of every process of this host's script, and in the supervisor's record."""
    arguments: tuple[str, ...] = ()
    """What follows the group's command."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the group's."""
    log: Path | None = None
    """The supervisor's output is appended to it; None where the placement has a log of its own."""
    cores: int = 1
    memory_gb: float = 0.0
    """0 when the job does not say."""
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The hosts of a job that are started together."""

    job: str
    attempt: int
    epoch: int
    """How many groups were placed for the job, with this one. Job and epoch name a group; a
    placement without shared files that gets the same pair again may return the first handle."""
    hosts: tuple[HostRequest, ...]
    command: tuple[str, ...]
    """The supervisor's, without a host's arguments."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The supervisor's whole environment where files are shared. Elsewhere it is empty: hosts have
    one of their own, and what the job needs is in the bundle."""
    bundle: str = field(default="", repr=False)
    """For hosts that share no files: to be passed to each as TRACKSIDE_GROUP, or as a private file
    that TRACKSIDE_GROUP_FILE names. It has secrets."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Not started yet: it waits for a machine, for instance."""

    why: str
    """In the engine's words; shown as the job's status message."""


@dataclass(frozen=True, slots=True)
class Running:
    pass


@dataclass(frozen=True, slots=True)
class Exited:
    code: int | None
    """None when it is gone and its exit code was not collected."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Its machine is gone, and the supervisor with it."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Its state could not be read. Never a reason to fail a job."""

    reason: str


Poll = Pending | Running | Exited | Lost | Unknown


class PlacementAway(Exception):
    """The engine cannot be asked now, and nothing was started. The job waits; it does not fail."""


class Placement(ABC):
    """Runs groups of supervisors somewhere. Every call returns promptly; none waits for a job or
    for a machine to be free. Has no state of its own: a handle is all that another process needs.
    """

    name: ClassVar[str]
    shares_files: ClassVar[bool]
    """Whether the hosts have this machine's files and processes. If so, supervisors work in the
    submitter's job folder, and one that died is started again alone, in a group of its own. If not,
    each host makes a folder of its own from the bundle, and a group whose lead is gone is placed
    anew as a whole."""
    is_this_machine: ClassVar[bool] = False
    """Whether the hosts reach this machine's loopback addresses, though they share no files: then a
    job's store may be at one."""
    schedules: ClassVar[bool] = False
    """Whether it queues groups itself: then they do not count against this machine's capacity."""

    @property
    def python(self) -> str:
        """The interpreter with Trackside on the hosts; not asked where files are shared."""
        return "python3"

    @abstractmethod
    def start(self, group: Group) -> Handle:
        """Start every host detached, or leave nothing behind and raise: `PlacementAway`, or an
        `OSError` or `ValueError` that fails the job. They outlive the caller."""

    @abstractmethod
    def poll(self, handle: Handle) -> dict[str, Poll]:
        """The state of each host; one that is missing is unknown. Never raises."""

    @abstractmethod
    def addresses(self, handle: Handle) -> dict[str, str]:
        """By host, at which the others reach it: an IP address or a name that they can resolve.
        Empty while they are not known."""

    @abstractmethod
    def interface(self, handle: Handle) -> str:
        """The network interface between the hosts; empty for the one that has the address."""

    @abstractmethod
    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        """Ask the supervisors once to end, or kill them; all, or one host's. One that is already
        gone is a success. A forced stop of all frees what the group holds."""
