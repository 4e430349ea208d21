"""The placement seam: where a job's supervisors run. `local.py` is this machine.

A placement is asked for all hosts of a job at once, and starts all of them or none.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import ClassVar

from trackside.quick_dataclass import dataclass
from trackside.records.death import Gone as Gone
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
    grace_seconds: int = 120
    """What the scripts need to end."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What the job asks of this engine, in the engine's words."""
    image: str = ""
    """For placements that run images: the job's."""
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
    why: str = ""
    """In the engine's words, where it has any."""
    gone: Gone | None = None
    """What the end of a supervisor that should be running is due to; None where only it is gone."""


class EndCause(Enum):
    CANCELLED = "cancelled"
    """Somebody ended it by the engine's own commands: the job is stopped."""
    TIME_LIMIT = "time limit"
    """The engine's own, not the job's."""
    OUT_OF_MEMORY = "out of memory"
    IMAGE = "image"
    """It cannot be had, or not be started."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The engine has ended the group: nothing of it runs, and another one would be no answer."""

    cause: EndCause
    why: str
    """In the engine's words."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Its machine is gone, and the supervisor with it."""

    why: str
    gone: Gone = Gone.MACHINE
    """`Gone.TAKEN` where the engine says that others have the machine, `Gone.ENGINE` where the
    engine itself has lost it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Its state could not be read. Never a reason to fail a job."""

    reason: str


Poll = Pending | Running | Exited | Ended | Lost | Unknown


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

    takes_address: ClassVar[bool] = False
    """Whether a name such as `slurm:user@login` or `ray:host:6379` says where the engine is."""
    runs_images: ClassVar[bool] = False
    """Whether the engine itself runs the job's image, which every job needs then: the supervisor is
    in the container, and the script is a process beside it."""
    caution: ClassVar[str] = ""
    """A clause for everybody who asks for it, without a full stop; empty if there is nothing to
    say."""

    def __init__(self, where: str = "") -> None:
        self.where = where

    @classmethod
    def is_here(cls) -> bool:
        """Whether this machine has what it takes to ask the engine, seen without asking it."""
        return True

    @classmethod
    def wrong_options(cls, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Of the options that a job gives, those that cannot be: each with the reason."""
        for name in options:
            yield name, f"is no option of {cls.name}; it has none"

    @property
    def python(self) -> str:
        """The interpreter with Trackside on the hosts; not asked where files are shared."""
        return "python3"

    def expect(self) -> None:  # noqa: B027 most have nothing to begin
        """A group will probably be started soon: what takes time and changes nothing may begin.
        Never raises, nor waits."""

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

    def offers(self) -> list[str]:
        """What there is and what of it is free, a line each, for people. `PlacementAway` when it
        cannot be asked, `ValueError` when it is not set up here."""
        return []

    @abstractmethod
    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        """Ask the supervisors once to end, or kill them; all, or one host's. One that is already
        gone is a success. A forced stop of all frees what the group holds. `PlacementAway` when
        the engine cannot be asked now."""
