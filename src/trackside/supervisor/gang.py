"""The hosts of one attempt: start and end together. They coordinate through the job's folder.

Host algo-1 leads: it makes the job's moves. Nothing else here knows where the other hosts run, so a
placement without a shared folder only replaces this module's files.
"""

import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.quick_dataclass import dataclass
from trackside.records import hosts
from trackside.records.group import GroupRecord, group_of
from trackside.records.hosts import HostRecord, Phase
from trackside.records.layout import HostFolder, JobFolder
from trackside.records.spec import JobSpec
from trackside.system import boot_clock, processes

DEFAULT_PORT = 7777
_PORTS = range(10_000, 32_768)
"""Below those of outgoing connections on Linux."""
_MOST_PROBES = 20
STAMP_SECONDS = 60.0
"""How often the lead records how long the hosts have run, for the time after a reboot."""


class Why(StrEnum):
    HOST_FAILED = "host_failed"
    HOST_LOST = "host_lost"
    MAX_RUNTIME = "max_runtime"


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
    """How long they had run when the lead last noted it; counts after a reboot."""


class Gang:
    def __init__(self, folder: JobFolder, spec: JobSpec, host: str, attempt: int) -> None:
        self.folder = folder
        self.hosts = spec.hosts
        self.host = host
        self.attempt = attempt
        self.is_lead = host == spec.hosts[0]
        self._stamped_at = time.monotonic()
        self._met: boot_clock.Moment | None = None
        self._order: EndOrder | None = None
        self._end_name = os.fspath(folder.end_order(attempt))
        folder.gang.mkdir(exist_ok=True)

    def folder_of(self, host: str) -> HostFolder:
        return self.folder.host(host, self.attempt)

    def announce(self, record: HostRecord) -> None:
        hosts.write(self.folder_of(self.host).record, record)

    def records(self) -> dict[str, HostRecord]:
        """Every host's record; one that has not written any yet is still preparing."""
        return {
            host: hosts.read(self.folder_of(host).record) or HostRecord() for host in self.hosts
        }

    def all_are(self, *phases: Phase) -> bool:
        return all(record.phase in phases for record in self.records().values())

    def end(self, why: Why, host: str) -> None:
        """Order all hosts to end. The first order counts."""
        if self.ordered_end() is None:
            order = asdict(EndOrder(why, host, time.time()))
            durable.write_json(self._end_path, order)

    def ordered_end(self) -> EndOrder | None:
        if self._order is None and os.path.exists(self._end_name):  # polled many times a second
            self._order = damaged_files.read(EndOrder, self._end_path)
        return self._order

    def meet(self) -> None:
        """The lead writes what all hosts need to agree on, once per attempt; see `make_durable`."""
        if self._meeting() is None:
            now = boot_clock.now()
            met = Meeting(master_port(group_of(self.folder, self.hosts)), now.boot_id, now.seconds)
            durable.write_json(self._meeting_path, asdict(met), lasts=False)

    def make_durable(self) -> None:
        """From now on the meeting survives a power cut: call once the scripts run."""
        if self.is_lead and self._meeting() is not None:
            durable.make_last(self._meeting_path)

    @property
    def master_port(self) -> int:
        meeting = self._meeting()
        return meeting.master_port if meeting else DEFAULT_PORT

    def running_seconds(self) -> float:
        """Since the hosts met, by a clock that cannot be set and that outlives the supervisor.

        After a reboot: as the lead last stamped it.
        """
        if self._met is not None:
            return self._met.age_seconds() or 0.0
        meeting = self._meeting()
        if meeting is None:
            return 0.0
        now = boot_clock.now()
        if meeting.boot_id == now.boot_id:
            self._met = boot_clock.Moment(now.boot_id, meeting.clock)
        return ran_seconds(meeting, now)

    def stamp(self) -> None:
        """Record from time to time how long the hosts have run."""
        now = time.monotonic()
        if now - self._stamped_at < STAMP_SECONDS:
            return
        self._stamped_at = now
        if meeting := self._meeting():
            stamped = replace(meeting, ran=round(self.running_seconds(), 1))
            durable.write_json(self._meeting_path, asdict(stamped), spends_ballast=False)

    def _meeting(self) -> "Meeting | None":
        return damaged_files.read(Meeting, self._meeting_path)

    @property
    def _end_path(self) -> Path:
        return Path(self._end_name)

    @property
    def _meeting_path(self) -> Path:
        return self.folder.meeting(self.attempt)


def ran_seconds(meeting: Meeting, now: boot_clock.Moment) -> float:
    """How long ago the hosts met; after a reboot, the last recorded running time. Pure."""
    age = boot_clock.Moment(meeting.boot_id, meeting.clock).age_at(now)
    return meeting.ran if age is None else age


def write_supervisor(folder: HostFolder, nonce: str) -> None:
    """This process is the host's supervisor now."""
    durable.write_json(folder.supervisor, {**asdict(processes.myself()), "nonce": nonce})


def master_port(group: GroupRecord) -> int:
    """For the lead, at the moment when the scripts start: the contract's port where its machine is
    its own, and any free one where several jobs share a machine.

    Not one that the kernel gives to connections: it might be taken before the script listens.
    """
    if not group.is_one_machine:
        return DEFAULT_PORT
    for _ in range(_MOST_PROBES):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", _PORTS[int.from_bytes(os.urandom(4)) % len(_PORTS)]))
            return int(probe.getsockname()[1])
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
