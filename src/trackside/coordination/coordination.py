"""The seam between the hosts of a running job: what each says about itself and learns of others.

`folder.py` keeps it in the job's folder, for hosts that share a file system; `store.py` adds a
mirror in object storage, for hosts that share nothing else.
"""

from abc import ABC, abstractmethod
from dataclasses import field
from enum import StrEnum
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.records.hosts import HostRecord
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder

FLIGHT_RECORDER = "flight_recorder"
"""The request that the script's hook writes its latest steps now."""


class Why(StrEnum):
    HOST_FAILED = "host_failed"
    HOST_LOST = "host_lost"
    MAX_RUNTIME = "max_runtime"
    ENGINE_TIME_LIMIT = "engine_time_limit"
    ENGINE_TAKES_BACK = "engine_takes_back"
    """The machines go to others; the job goes on when it has some again."""


@dataclass(frozen=True, slots=True)
class EndOrder:
    """All hosts must end their scripts, for this reason."""

    why: Why
    host: str
    time: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """What all hosts need to agree on."""

    master_port: int
    boot_id: str
    clock: float
    """When the hosts met, since that boot."""
    ran: float = 0.0
    """How long they had run when the lead last noted it; counts on another boot."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """What is known of the processes of one host."""

    supervisor: bool
    """Whether its supervisor runs, or is expected to: it may not have said anything yet."""
    script: bool | None = None
    """Whether its script runs; None when that cannot be told from here."""
    silent_seconds: float = 0.0
    """How long its supervisor has given no sign of life, by the monotonic clock of this host."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something that one host is asked to do, once."""

    id: str
    """Unique in the job. A second request with the same id replaces the first."""
    what: str
    """Such as `FLIGHT_RECORDER`; a host leaves out what it does not know."""
    host: str
    details: dict[str, Any] = field(default_factory=dict)


class Coordination(ABC):
    """What one host of one attempt says about itself and learns of the others.

    All methods are safe to repeat after a crash at any line.
    """

    is_one_machine: bool
    """Whether this host sees the processes of the others, and can start them."""

    def __init__(self, folder: JobFolder, hosts: tuple[str, ...], host: str, attempt: int) -> None:
        self.folder = folder
        self.hosts = hosts
        self.host = host
        self.attempt = attempt
        self.is_lead = host == hosts[0]
        self.journal = Journal(folder.journal)

    @abstractmethod
    def announce(self, record: HostRecord) -> None:
        """Tell the others how far this host is."""

    @abstractmethod
    def records(self) -> dict[str, HostRecord]:
        """Every host's record; one that has announced nothing yet is still preparing."""

    @abstractmethod
    def order_end(self, why: Why, host: str) -> None:
        """Order all hosts to end their scripts. The first order counts."""

    @abstractmethod
    def ordered_end(self) -> EndOrder | None:
        """Polled many times a second."""

    @abstractmethod
    def write_meeting(self, meeting: Meeting) -> None:
        """Only the lead. A power cut may lose one in which nothing ran yet: see `make_durable`."""

    @abstractmethod
    def meeting(self) -> Meeting | None: ...

    @abstractmethod
    def make_durable(self) -> None:
        """From now on the meeting survives a power cut: called once the scripts run."""

    @abstractmethod
    def liveness(self, host: str) -> Liveness: ...

    @abstractmethod
    def request(self, request: Request) -> None:
        """Ask a host of this job for something."""

    @abstractmethod
    def requests(self) -> list[Request]:
        """What this host is asked for, oldest first; each is returned once."""

    @abstractmethod
    def is_over(self) -> str:
        """Why this host's part is over although its job may continue: its script must stop with
        grace. Empty while it is not."""

    @abstractmethod
    def start(self) -> None:
        """Begin to give signs of life, where others do not see this host's process."""

    @abstractmethod
    def close(self) -> None:
        """The counterpart of `start`: what was announced has reached the others, if it can."""
