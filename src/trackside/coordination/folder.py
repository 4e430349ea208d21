"""Coordination through the job's folder: its hosts share a file system."""

import os
import time
from dataclasses import asdict

from trackside.coordination.coordination import (
    Coordination,
    EndOrder,
    Liveness,
    Meeting,
    Request,
    Why,
)
from trackside.files import damaged_files, durable
from trackside.records import hosts as host_records
from trackside.records.host_processes import script_lives, supervisor_lives
from trackside.records.hosts import HostRecord
from trackside.records.layout import HostFolder, JobFolder


class FolderCoordination(Coordination):
    is_one_machine = True

    def __init__(self, folder: JobFolder, hosts: tuple[str, ...], host: str, attempt: int) -> None:
        super().__init__(folder, hosts, host, attempt)
        self._order: EndOrder | None = None
        self._end_name = os.fspath(folder.end_order(attempt))
        self._heard: dict[str, float] = {}
        """When each host's supervisor was last known to live, by the monotonic clock."""
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
            order = asdict(EndOrder(why, host, time.time()))
            durable.write_json(self.folder.end_order(self.attempt), order)

    def ordered_end(self) -> EndOrder | None:
        if self._order is None and os.path.exists(self._end_name):  # far quicker than reading it
            self._order = damaged_files.read(EndOrder, self.folder.end_order(self.attempt))
        return self._order

    def write_meeting(self, meeting: Meeting) -> None:
        is_first = not meeting.ran
        durable.write_json(
            self.folder.meeting(self.attempt),
            asdict(meeting),
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
        if any(lives) or all(each is None for each in lives):
            self._heard[host] = now
            return Liveness(supervisor=True)
        silent_seconds = now - self._heard.setdefault(host, now)
        return Liveness(False, script_lives(folders[0]), silent_seconds)

    def request(self, request: Request) -> None:
        path = self.folder.requests(request.host) / f"{request.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_json(path, asdict(request))

    def requests(self) -> list[Request]:
        """A request is removed before it is returned: it is never done twice."""
        folder = self.folder.requests(self.host)
        try:
            found = sorted(folder.glob("[!.]*.json"), key=lambda path: path.stat().st_mtime_ns)
        except FileNotFoundError:
            return []
        taken = []
        for path in found:
            request = damaged_files.read(Request, path)
            path.unlink(missing_ok=True)
            if request is not None:
                taken.append(request)
        return taken

    def is_over(self) -> str:
        return ""

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass
