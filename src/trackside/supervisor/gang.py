"""What the hosts of one attempt agree on: a port, and since when they run. Also their addresses.

Host algo-1 leads: it makes the job's moves. What the hosts tell each other is `coordination`'s.
"""

import os
import socket
import time
from contextlib import suppress
from math import inf

from trackside.coordination.coordination import Coordination, Meeting
from trackside.files import durable
from trackside.files.json_record import numbered
from trackside.records.group import GroupRecord, group_of
from trackside.records.hosts import Phase
from trackside.records.layout import HostFolder
from trackside.system import boot_clock, processes

DEFAULT_PORT = 7777
_PORTS = range(10_000, 32_768)
"""Below those of outgoing connections on Linux."""
_MOST_PROBES = 20
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
            group = group_of(self._coordination.folder, self._coordination.hosts)
            self._coordination.write_meeting(Meeting(master_port(group), now.boot_id, now.seconds))

    @property
    def master_port(self) -> int:
        meeting = self._coordination.meeting()
        return meeting.master_port if meeting else DEFAULT_PORT

    def running_seconds(self) -> float:
        """Since the hosts met, by a clock that cannot be set and that outlives the supervisor.

        On another boot, of this machine or another, it continues from what the lead stamped last.
        """
        if self._met is None:
            meeting = self._coordination.meeting()
            if meeting is None:
                return 0.0
            now = boot_clock.now()
            self._met = met_at(meeting, now)
            if meeting.boot_id != now.boot_id:
                self._stamped_at = -inf  # a supervisor after this one continues from here
        return self._met.age_seconds() or 0.0

    def stamp(self) -> None:
        """Record from time to time how long the hosts have run."""
        seconds, now = self.running_seconds(), time.monotonic()
        if now - self._stamped_at < STAMP_SECONDS:
            return
        self._stamped_at = now
        meeting = self._coordination.meeting()
        if meeting is not None and self._met is not None:
            boot_id, clock = self._met.boot_id, self._met.seconds
            ran = round(seconds, 1)
            self._coordination.write_meeting(Meeting(meeting.master_port, boot_id, clock, ran))


def met_at(meeting: Meeting, now: boot_clock.Moment) -> boot_clock.Moment:
    """When the hosts met, by the clock of the present boot: on another than theirs, as if they had
    run without a pause until they were last known to. Pure."""
    if meeting.boot_id == now.boot_id:
        return boot_clock.Moment(meeting.boot_id, meeting.clock)
    return boot_clock.Moment(now.boot_id, now.seconds - meeting.ran)


def write_supervisor(folder: HostFolder, nonce: str) -> None:
    """This process is the host's supervisor now. It need not outlast a power cut: nor does that."""
    record = {**numbered(processes.myself()), "nonce": nonce}
    durable.write_json(folder.supervisor, record, lasts=False)


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
