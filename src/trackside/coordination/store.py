"""Coordination through object storage, for hosts that share nothing else.

Every host has the job's folder for itself, as `folder.py` knows it; a `Mirror` copies what the
others need to know. Hosts open no ports, and need neither the submitter nor a server.
"""

import os

from trackside.coordination.coordination import Liveness, Request, Why
from trackside.coordination.folder import FolderCoordination
from trackside.coordination.mirror import Mirror, new_instance
from trackside.coordination.mirror_files import TAKEN, MirrorFiles
from trackside.coordination.mirror_state import Plan, is_lost
from trackside.files import damaged_files
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import locate, locate_object


class StoreCoordination(FolderCoordination):
    def __init__(
        self,
        folder: JobFolder,
        spec: JobSpec,
        host: str,
        attempt: int,
        settings: Settings,
        group: GroupRecord,
    ) -> None:
        super().__init__(folder, spec.hosts, host, attempt, is_one_machine=False)
        self._settings = settings
        self._keys = JobKeys.of(spec)
        self._plan = Plan(
            hosts=spec.hosts,
            host=host,
            epoch=group.epoch,
            instance=new_instance(),
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            patience_seconds=settings.upload_deadline_seconds,
        )
        self.mirror: Mirror | None = None
        """Between `start` and `close`."""

    def start(self) -> None:
        """`StoreUnreachable` if a lead without any files of its own cannot learn how far the job
        is."""
        home = self._settings.home
        mirror = Mirror(
            self._plan,
            MirrorFiles(self.folder, self._plan, self.attempt),
            locate(self._keys.coordination, home=home, hurried=True),
            locate_object(self._keys.journal, home=home, hurried=True),
        )
        self.mirror = mirror
        mirror.start(self._settings.upload_deadline_seconds)

    def close(self) -> None:
        if self.mirror is not None:
            self.mirror.close()
            self.mirror = None

    def announce(self, record: HostRecord) -> None:
        super().announce(record)
        self._wake()

    def order_end(self, why: Why, host: str) -> None:
        super().order_end(why, host)
        self._wake()

    def request(self, request: Request) -> None:
        super().request(request)
        self._wake()

    def requests(self) -> list[Request]:
        """A request keeps its file under another name, by which it is known when it comes again."""
        if not os.path.exists(self._requests_name):  # asked many times a second
            return []
        found = []
        folder = self.folder.requests(self.host)
        for path in sorted(folder.glob("[!.]*.json"), key=lambda path: path.stat().st_mtime_ns):
            taken = path.with_suffix(TAKEN)
            is_known = taken.exists()
            os.replace(path, taken)
            if not is_known and (request := damaged_files.read(Request, taken)):
                found.append(request)
        return found

    def liveness(self, host: str) -> Liveness:
        """Of those hosts that this one listens to: the lead to all, the others to the lead."""
        if self.mirror is None or host not in self._plan.peers:
            return Liveness(supervisor=True)
        peer = self.mirror.state.peer(host)
        return Liveness(not is_lost(self._plan, peer), None, peer.silent_seconds)

    def is_over(self) -> str:
        return self.mirror.state.over if self.mirror is not None else ""

    def _wake(self) -> None:
        if self.mirror is not None:
            self.mirror.wake()
