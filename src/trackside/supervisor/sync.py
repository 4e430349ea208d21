"""Folders copied to object storage while the job runs: checkpoints, intermediate output, tensors.
A file goes up whole and settled, or not at all, and once for each time it is written.

Event files, which grow until the script ends, go up record by record: see `event_sync.py`.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread

from trackside.curves.chunks import is_event_file
from trackside.curves.log_metrics import LogMetrics, MetricsKeeper
from trackside.errors import TracksideError
from trackside.hosts import SyncState
from trackside.layout import HostFolder, JobKeys, curves_of
from trackside.settings import Settings
from trackside.spec import JobSpec
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry
from trackside.supervisor.config_files import synced_folders
from trackside.supervisor.event_sync import EventSync
from trackside.supervisor.folder_scan import Look, scan
from trackside.supervisor.logs import LogUploader

logger = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
SETTLED_SECONDS = 1.0
"""A file that has not changed for this long is taken to be whole."""
READ_BYTES = 4 << 20


class FileChanged(Exception):
    """The file was written to while it was being sent; what was sent is thrown away."""


class FolderSync:
    """One folder and the location that follows it. Not thread-safe: its `Syncer` owns it."""

    def __init__(
        self,
        name: str,
        source: Path,
        to: Location,
        *,
        mirror: bool = False,
        leave: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.name = name
        self.source = source
        self.state = SyncState(to=to.uri, last=time.time())
        self._to = to
        self._mirror = mirror
        """Also delete there what was deleted here (checkpoints)."""
        self._leave = leave
        """Which paths are somebody else's to send."""
        self._sent: dict[str, Look] = {}
        self._seen: dict[str, Look] = {}
        self._known = False

    def tick(self, *, last: bool = False) -> None:
        """Send what is new and settled (`last`: everything). Raises what the store raises."""
        if not self._known:
            self._take_stock()
        began = time.time()
        looks = dict(self._scan())
        waiting = {path: look for path, look in looks.items() if self._sent.get(path) != look}
        # By time of writing: a pointer to the newest checkpoint follows the checkpoint.
        for path in sorted(waiting, key=lambda path: waiting[path].mtime_ns):
            if last or self._is_due(path, waiting[path]):
                self._send(path, waiting[path])
                self._count(waiting)
        self._seen = looks
        if self._mirror:
            self._delete(set(self._sent) - set(looks))
        self._count(waiting)
        if not any(self._sent.get(path) != look for path, look in waiting.items()):
            self.state.last = began

    def _is_due(self, path: str, look: Look) -> bool:
        settled = time.time() - look.mtime_ns / 1e9
        # A clock that was set back must not hold a file for ever: two equal looks settle it too.
        return self._seen.get(path) == look and (settled >= SETTLED_SECONDS or settled < 0)

    def _send(self, path: str, look: Look) -> None:
        source = self.source / path
        try:
            self._to.store.put(self._to.child(path).key, _chunks(source, look))
        except (FileChanged, FileNotFoundError):
            return  # the next scan sees what became of it
        self._sent[path] = look
        self.state.uploaded_bytes += look.size

    def _delete(self, paths: set[str]) -> None:
        if paths:
            self._to.store.delete(self._to.child(path).key for path in sorted(paths))
            for path in paths:
                del self._sent[path]

    def _take_stock(self) -> None:
        """What is there already, restored or sent by an earlier supervisor, is not sent again."""
        there = dict(below(self._to))
        for path, look in self._scan():
            entry = there.get(path)
            if entry and entry.size_bytes == look.size and entry.modified >= look.mtime_ns / 1e9:
                self._sent[path] = look
        self._known = True

    def _scan(self) -> Iterator[tuple[str, Look]]:
        return ((path, look) for path, look in scan(self.source) if not self._leave(path))

    def _count(self, waiting: dict[str, Look]) -> None:
        left = [look for path, look in waiting.items() if self._sent.get(path) != look]
        self.state.pending_files = len(left)
        self.state.pending_bytes = sum(look.size for look in left)


class Syncer:
    """Owns the threads in which a host's folders and log go up. Training never waits for them.

    Event files have a thread of their own: curves stay live while a large checkpoint goes up.
    """

    def __init__(
        self, folders: list[FolderSync], log: LogUploader, events: list[EventSync] | None = None
    ) -> None:
        self.folders: list[FolderSync | EventSync] = [*folders, *(events or [])]
        self._log = log
        self._stop = Event()
        self._threads = [
            Thread(target=self._run, args=(self._pass_files,), name="trackside-sync", daemon=True),
            Thread(
                target=self._run, args=(self._pass_events,), name="trackside-curves", daemon=True
            ),
        ]
        self.log_state = SyncState(to=log.to.uri, last=time.time())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def states(self) -> dict[str, SyncState]:
        return {folder.name: folder.state for folder in self.folders} | {"log": self.log_state}

    def finish(self, deadline: float, waiting: Callable[[str], None]) -> str:
        """Send everything that is left, trying until the deadline (monotonic). The error, or ''.

        `waiting` is told about each try that did not work.
        """
        self._stop.set()
        for thread in self._threads:
            thread.join()
        pause = 0.5
        while True:
            self._pass_events(last=True)
            self._pass_files(last=True)
            error = next((state.error for state in self.states().values() if state.error), "")
            if not error or time.monotonic() + pause > deadline:
                return error
            waiting(error)
            time.sleep(pause)
            pause = min(pause * 2, 15.0)

    def send_all(self) -> None:
        """Send everything in this thread, once; raises the first error."""
        for folder in self.folders:
            folder.tick(last=True)
        self._log.tick(last=True)

    def _run(self, send: Callable[[], None]) -> None:
        while not self._stop.wait(SCAN_SECONDS):
            send()

    def _pass_events(self, *, last: bool = False) -> None:
        for folder in self.folders:
            if isinstance(folder, EventSync):
                self._try(folder.state, partial(folder.tick, last=last))

    def _pass_files(self, *, last: bool = False) -> None:
        for folder in self.folders:
            if isinstance(folder, FolderSync):
                self._try(folder.state, partial(folder.tick, last=last))

        def send_log() -> None:
            began = time.time()
            self.log_state.pending_bytes = self._log.tick(last=last)
            if not self.log_state.pending_bytes:
                self.log_state.last = began

        self._try(self.log_state, send_log)

    def _try(self, state: SyncState, send: Callable[[], None]) -> None:
        try:
            send()
            state.error = ""
        except Exception as error:  # a thread that died here would stop the sync unseen
            known = isinstance(error, TracksideError | OSError)
            if not state.error:
                logger.warning("sync to %s waits: %s", state.to, error, exc_info=not known)
            state.error = str(error) or repr(error)


def below(location: Location) -> Iterator[tuple[str, Entry]]:
    """Every object of a folder-like location, by its name below it."""
    prefix = location.child("x").key[:-1]
    for entry in location.store.list(prefix):
        if not entry.key.endswith("/"):
            yield entry.key.removeprefix(prefix), entry


def make_syncer(
    spec: JobSpec, folder: HostFolder, host: str, attempt: int, settings: Settings
) -> Syncer:
    """All that leaves a host while it runs."""
    folders, events = [], []
    for seen_as, uri in synced_folders(spec).items():
        source, to = folder.inside(seen_as), locate(uri, home=settings.home)
        if spec.checkpoints is not None and seen_as == spec.checkpoints.local_path.rstrip("/"):
            # Event files too are whole here: a later attempt gets them back as they were.
            folders.append(FolderSync(seen_as, source, to, mirror=True))
        else:
            folders.append(FolderSync(seen_as, source, to, leave=is_event_file))
            events.append(EventSync(f"{seen_as} (event files)", source, to, host))
    keys = JobKeys.of(spec)
    metrics = locate(keys.metrics, home=settings.home)
    folders.append(FolderSync("metrics", folder.metrics, metrics))
    events.append(_own_curves(spec, folder, host, settings))
    logs = locate(f"{keys.logs}/{host}", home=settings.home)
    return Syncer(folders, LogUploader(folder.log, folder.log_times, logs, attempt), events)


def _own_curves(spec: JobSpec, folder: HostFolder, host: str, settings: Settings) -> EventSync:
    """What the supervisor itself writes for TensorBoard: a run named after the host."""
    told = folder.ml / "output" / "metrics" / "sagemaker"
    source = LogMetrics(spec.algorithm.metrics, folder.log, folder.log_times, told)
    folder.metrics.mkdir(exist_ok=True)
    run = folder.curves / "trackside" / host
    keeper = MetricsKeeper(source, run, folder.metrics / f"{host}.json")
    to = locate(curves_of(spec), home=settings.home)
    return EventSync("curves", folder.curves, to, host, fill=keeper.tick)


def _chunks(path: Path, look: Look) -> Iterator[bytes]:
    """The file's bytes as the scan saw it; `FileChanged` before the last one if it is no longer so.

    Raising inside the upload throws the upload away, so a torn file never gets its final name.
    """
    left = look.size
    with path.open("rb") as file:
        while left:
            data = file.read(min(READ_BYTES, left))
            if not data:
                raise FileChanged(path)
            left -= len(data)
            if not left:
                stat = os.stat(path)
                if Look(stat.st_size, stat.st_mtime_ns, stat.st_ino) != look:
                    raise FileChanged(path)
            yield data
