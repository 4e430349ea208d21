"""Coordination through the job's folder: its hosts share a file system, and mostly the machine.

On one machine a supervisor lives as long as its process. Of another machine a process cannot be
seen: there it lives as long as it touches its record, which the reader times by its own clock.
"""

import os
import time
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.coordination.coordination import (
    Coordination,
    EndOrder,
    Liveness,
    Meeting,
    Request,
    Why,
)
from trackside.files import damaged_files, durable
from trackside.files.json_record import numbered
from trackside.quick_dataclass import dataclass
from trackside.records import hosts as host_records
from trackside.records.host_processes import script_lives, supervisor_lives, wake_supervisors
from trackside.records.hosts import HostRecord
from trackside.records.layout import HostFolder, JobFolder
from trackside.settings import HEARTBEAT_SECONDS, LEASE_SECONDS

if TYPE_CHECKING:
    from trackside.system.worker import Worker


@dataclass(frozen=True, slots=True)
class _Asked:
    time: float


class FolderCoordination(Coordination):
    def __init__(
        self,
        folder: JobFolder,
        hosts: tuple[str, ...],
        host: str,
        attempt: int,
        *,
        is_one_machine: bool = True,
        lease_seconds: float = LEASE_SECONDS,
        beat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """The last two count if the hosts are on several machines."""
        super().__init__(folder, hosts, host, attempt)
        self.is_one_machine = is_one_machine
        self._lease_seconds = lease_seconds
        self._beat_seconds = beat_seconds
        self._order: EndOrder | None = None
        self._end_name = os.fspath(folder.end_order(attempt))
        self._requests_name = os.fspath(folder.requests(host))
        self._heard: dict[str, float] = {}
        """When each host's supervisor was last known to live, by the monotonic clock."""
        self._touched: dict[str, list[int]] = {}
        """When each host's records were last touched, by the clock of the file system."""
        self._beat: Worker | None = None
        folder.gang.mkdir(exist_ok=True)

    def folder_of(self, host: str) -> HostFolder:
        return self.folder.host(host, self.attempt)

    def announce(self, record: HostRecord) -> None:
        host_records.write(self.folder_of(self.host).record, record)

    def records(self) -> dict[str, HostRecord]:
        return {
            host: host_records.read(self.folder_of(host).record) or HostRecord()
            for host in self.hosts
        }

    def order_end(self, why: Why, host: str) -> None:
        if self.ordered_end() is None:
            order = EndOrder(why, host, time.time())
            durable.write_record(self.folder.end_order(self.attempt), order)

    def ordered_end(self) -> EndOrder | None:
        if self._order is None and os.path.exists(self._end_name):  # far quicker than reading it
            self._order = damaged_files.read(EndOrder, self.folder.end_order(self.attempt))
        return self._order

    def write_meeting(self, meeting: Meeting) -> None:
        is_first = not meeting.ran
        durable.write_record(
            self.folder.meeting(self.attempt),
            meeting,
            spends_ballast=is_first,  # a later one is written again soon
            lasts=not is_first,
        )

    def meeting(self) -> Meeting | None:
        return damaged_files.read(Meeting, self.folder.meeting(self.attempt))

    def make_durable(self) -> None:
        if self.is_lead and self.meeting() is not None:
            durable.make_last(self.folder.meeting(self.attempt))

    def liveness(self, host: str) -> Liveness:
        """Of this and all earlier attempts: a supervisor continues from one into the next. One
        without a record yet is starting: it was started before this attempt."""
        folders = [self.folder.host(host, number) for number in range(self.attempt, 0, -1)]
        lives = [supervisor_lives(folder) for folder in folders]
        now = time.monotonic()
        is_new = not self.is_one_machine and self._is_touched(host, folders)
        if any(lives) or all(each is None for each in lives) or is_new:
            self._heard[host] = now
            return Liveness(supervisor=True)
        silent_seconds = now - self._heard.setdefault(host, now)
        if not self.is_one_machine:
            return Liveness(silent_seconds < self._lease_seconds, None, silent_seconds)
        return Liveness(False, script_lives(folders[0]), silent_seconds)

    def _is_touched(self, host: str, folders: list[HostFolder]) -> bool:
        """Whether its supervisor has given a sign of life since the last call."""
        before = self._touched.get(host)
        self._touched[host] = [_time_of(folder.supervisor) for folder in folders]
        return self._touched[host] != before

    def request(self, request: Request) -> None:
        path = self.folder.requests(request.host) / f"{request.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_json(path, {"time": time.time(), **numbered(request)})
        wake_supervisors(self.folder)

    def requests(self) -> list[Request]:
        """A request is removed before it is returned: it is never done twice."""
        if not os.path.exists(self._requests_name):  # asked many times a second
            return []
        found = []
        for path in self.folder.requests(self.host).glob("[!.]*.json"):
            asked = damaged_files.read(_Asked, path)
            request = damaged_files.read(Request, path)
            path.unlink(missing_ok=True)
            if asked is not None and request is not None:
                found.append((asked.time, request))
        return [request for _, request in sorted(found, key=itemgetter(0))]

    def is_over(self) -> str:
        return ""

    def start(self) -> None:
        if not self.is_one_machine:
            from trackside.system.worker import Worker  # threads, which most jobs can do without

            self._beat = Worker("trackside-beat", self._touch, interval=self._beat_seconds)
            self._beat.start()

    def _touch(self) -> None:
        os.utime(self.folder_of(self.host).supervisor)

    def close(self) -> None:
        if self._beat is not None:
            self._beat.close()
            self._beat = None


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
