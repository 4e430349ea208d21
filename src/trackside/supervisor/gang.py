"""The hosts of one attempt: start together, end together. They meet in the job's folder.

Host algo-1 leads: it makes the job's moves. Nothing else here knows where the other hosts run, so a
placement without a shared folder replaces this module's files by another meeting place.
"""

import socket
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from trackside import durable, hosts, process_table, processes
from trackside.hosts import HostRecord, Phase
from trackside.layout import HostFolder, JobFolder
from trackside.spec import JobSpec

DEFAULT_PORT = 7777
LOST_AFTER_SECONDS = 10.0
"""A host whose supervisor is gone this long, with its script not ended, is lost."""


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


class Gang:
    def __init__(self, folder: JobFolder, spec: JobSpec, host: str, attempt: int) -> None:
        self.folder = folder
        self.hosts = spec.hosts
        self.host = host
        self.attempt = attempt
        self.is_lead = host == spec.hosts[0]
        self._missing_since: dict[str, float] = {}
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
        """Order all hosts to end. The first order stands."""
        if self.ordered_end() is None:
            order = asdict(EndOrder(why, host, time.time()))
            durable.write_json(self._end_path, order)

    def ordered_end(self) -> EndOrder | None:
        data: dict[str, Any] | None = durable.read_json(self._end_path)
        return None if data is None else EndOrder(Why(data["why"]), data["host"], data["time"])

    def meet(self) -> None:
        """The lead notes what all hosts need to agree on, once per attempt."""
        if durable.read_json(self._meeting_path) is None:
            clock = {"boot_id": process_table.boot_id(), "clock": _since_boot()}
            durable.write_json(self._meeting_path, {"master_port": _free_port(), **clock})

    @property
    def master_port(self) -> int:
        meeting = durable.read_json(self._meeting_path)
        return int(meeting["master_port"]) if meeting else DEFAULT_PORT

    def running_seconds(self) -> float:
        """Since the hosts met; by a clock that no one can set, and that outlives the supervisor."""
        meeting = durable.read_json(self._meeting_path)
        if not meeting or meeting["boot_id"] != process_table.boot_id():
            return 0.0
        return _since_boot() - float(meeting["clock"])

    def lost_hosts(self) -> list[str]:
        """Hosts whose supervisor has been gone for a while although their script has not ended."""
        now = time.monotonic()
        lost = []
        for host, record in self.records().items():
            alive = is_supervised(self.folder_of(host))
            if host == self.host or record.phase is Phase.ENDED or alive:
                self._missing_since.pop(host, None)
            elif now - self._missing_since.setdefault(host, now) > LOST_AFTER_SECONDS:
                lost.append(host)
        return lost

    @property
    def _end_path(self) -> Path:
        return self.folder.gang / f"{self.attempt}.end.json"

    @property
    def _meeting_path(self) -> Path:
        return self.folder.gang / f"{self.attempt}.json"


def write_supervisor(folder: HostFolder, nonce: str) -> None:
    """This process is the host's supervisor now."""
    durable.write_json(folder.supervisor, {**asdict(processes.myself()), "nonce": nonce})


def is_supervised(folder: HostFolder) -> bool:
    """Whether the host's supervisor lives; also true before it has come forward."""
    record: dict[str, Any] | None = durable.read_json(folder.supervisor)
    if record is None:
        return True
    return processes.is_alive(processes.Identity.from_record(record))


def addresses(job: str, host_names: tuple[str, ...]) -> dict[str, str]:
    """A loopback address for every host, apart from other jobs' where that can be."""
    if sys.platform != "linux":  # elsewhere only 127.0.0.1 is up
        return dict.fromkeys(host_names, "127.0.0.1")
    number = zlib.crc32(job.encode())
    first, second = 1 + number % 254, number // 254 % 250
    return {
        host: f"127.{first}.{second + index // 250}.{1 + index % 250}"
        for index, host in enumerate(host_names)
    }


def interface_name() -> str:
    return "lo" if sys.platform == "linux" else "lo0"


def _free_port() -> int:
    """Any free one rather than the contract's 7777: several jobs share this machine."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
