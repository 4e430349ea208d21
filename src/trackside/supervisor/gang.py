"""What the hosts of one attempt agree on: a port, and since when they run. Also their addresses.

Host algo-1 leads: it makes the job's moves. What the hosts tell each other is `coordination`'s.
"""

import socket
import sys
import time
import zlib
from dataclasses import asdict, replace

from trackside.coordination.coordination import Coordination, Meeting
from trackside.files import durable
from trackside.records.hosts import Phase
from trackside.records.layout import HostFolder
from trackside.system import boot_clock, processes

DEFAULT_PORT = 7777
STAMP_SECONDS = 60.0
"""How often the lead records how long the hosts have run, for the time after a reboot."""


class Gang:
    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._stamped_at = time.monotonic()
        self._met: boot_clock.Moment | None = None

    def all_are(self, *phases: Phase) -> bool:
        return all(record.phase in phases for record in self._coordination.records().values())

    def meet(self) -> None:
        """The lead writes what all hosts need to agree on, once per attempt."""
        if self._coordination.meeting() is None:
            now = boot_clock.now()
            self._coordination.write_meeting(Meeting(_free_port(), now.boot_id, now.seconds))

    @property
    def master_port(self) -> int:
        meeting = self._coordination.meeting()
        return meeting.master_port if meeting else DEFAULT_PORT

    def running_seconds(self) -> float:
        """Since the hosts met, by a clock that cannot be set and that outlives the supervisor.

        After a reboot: as the lead last stamped it.
        """
        if self._met is not None:
            return self._met.age_seconds() or 0.0
        meeting = self._coordination.meeting()
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
        if meeting := self._coordination.meeting():
            stamped = replace(meeting, ran=round(self.running_seconds(), 1))
            self._coordination.write_meeting(stamped)


def ran_seconds(meeting: Meeting, now: boot_clock.Moment) -> float:
    """How long ago the hosts met; after a reboot, the last recorded running time. Pure."""
    age = boot_clock.Moment(meeting.boot_id, meeting.clock).age_at(now)
    return meeting.ran if age is None else age


def write_supervisor(folder: HostFolder, nonce: str) -> None:
    """This process is the host's supervisor now."""
    durable.write_json(folder.supervisor, {**asdict(processes.myself()), "nonce": nonce})


def addresses(job: str, host_names: tuple[str, ...]) -> dict[str, str]:
    """A loopback address for every host, distinct from other jobs' where possible."""
    if sys.platform != "linux":  # elsewhere only 127.0.0.1 is available
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
