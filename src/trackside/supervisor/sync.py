"""Folders copied to object storage while the job runs: checkpoints, intermediate output, tensors,
event files. A file goes up whole and settled, or not at all, and once for each time it is written.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from trackside.errors import TracksideError
from trackside.hosts import SyncState
from trackside.layout import HostFolder, JobKeys
from trackside.settings import Settings
from trackside.spec import JobSpec
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry
from trackside.supervisor.config_files import synced_folders
from trackside.supervisor.logs import LogUploader

logger = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
SETTLED_SECONDS = 1.0
"""A file that has not changed for this long is taken to be whole."""
GROWING_SECONDS = 2.0
"""The least time between two uploads of a file that is only appended to."""
READ_BYTES = 4 << 20


class FileChanged(Exception):
    """The file was written to while it was being sent; what was sent is thrown away."""


@dataclass(frozen=True, slots=True)
class Look:
    """A file as one scan saw it."""

    size: int
    mtime_ns: int
    inode: int


class FolderSync:
    """One folder and the location that follows it. Not thread-safe: its `Syncer` owns it."""

    def __init__(self, name: str, source: Path, to: Location, *, mirror: bool = False) -> None:
        self.name = name
        self.source = source
        self.state = SyncState(to=to.uri, last=time.time())
        self._to = to
        self._mirror = mirror
        """Also delete there what was deleted here (checkpoints)."""
        self._sent: dict[str, Look] = {}
        self._seen: dict[str, Look] = {}
        self._sent_at: dict[str, float] = {}
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
        if _is_growing(path):
            return time.monotonic() - self._sent_at.get(path, 0.0) >= GROWING_SECONDS
        settled = time.time() - look.mtime_ns / 1e9
        # A clock that was set back must not hold a file for ever: two equal looks settle it too.
        return self._seen.get(path) == look and (settled >= SETTLED_SECONDS or settled < 0)

    def _send(self, path: str, look: Look) -> None:
        began = time.monotonic()
        source = self.source / path
        try:
            self._to.store.put(self._to.child(path).key, _chunks(source, look))
        except (FileChanged, FileNotFoundError):
            return  # the next scan sees what became of it
        self._sent[path] = look
        # What takes long to send is not sent again at once: a growing file would never end.
        self._sent_at[path] = time.monotonic() + 9 * (time.monotonic() - began)
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
        stack = [""]
        while stack:
            below = stack.pop()
            try:
                entries = list(os.scandir(self.source / below))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        yield path, Look(stat.st_size, stat.st_mtime_ns, stat.st_ino)
                except FileNotFoundError:
                    continue

    def _count(self, waiting: dict[str, Look]) -> None:
        left = [look for path, look in waiting.items() if self._sent.get(path) != look]
        self.state.pending_files = len(left)
        self.state.pending_bytes = sum(look.size for look in left)


class Syncer:
    """Owns the thread in which a host's folders and log go up. Training never waits for it."""

    def __init__(self, folders: list[FolderSync], log: LogUploader) -> None:
        self.folders = folders
        self._log = log
        self._stop = Event()
        self._thread = Thread(target=self._run, name="trackside-sync", daemon=True)
        self.log_state = SyncState(to=log.to.uri, last=time.time())

    def start(self) -> None:
        self._thread.start()

    def states(self) -> dict[str, SyncState]:
        return {folder.name: folder.state for folder in self.folders} | {"log": self.log_state}

    def finish(self, deadline: float, waiting: Callable[[str], None]) -> str:
        """Send everything that is left, trying until the deadline (monotonic). The error, or ''.

        `waiting` is told about each try that did not work.
        """
        self._stop.set()
        self._thread.join()
        pause = 0.5
        while True:
            self._pass(last=True)
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

    def _run(self) -> None:
        while not self._stop.wait(SCAN_SECONDS):
            self._pass(last=False)

    def _pass(self, *, last: bool) -> None:
        for folder in self.folders:
            self._try(folder.state, lambda folder=folder: folder.tick(last=last))  # type: ignore[misc]

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
    folders = []
    for seen_as, uri in synced_folders(spec).items():
        mirror = spec.checkpoints is not None and seen_as == spec.checkpoints.local_path.rstrip("/")
        to = locate(uri, home=settings.home)
        folders.append(FolderSync(seen_as, folder.inside(seen_as), to, mirror=mirror))
    logs = locate(f"{JobKeys.of(spec).logs}/{host}", home=settings.home)
    return Syncer(folders, LogUploader(folder.log, folder.log_times, logs, attempt))


def _chunks(path: Path, look: Look) -> Iterator[bytes]:
    """The file's bytes as the scan saw it; `FileChanged` before the last one if it is no longer so.

    Raising inside the upload throws the upload away, so a torn file never gets its final name. A
    file that only grows is cut at the size seen: its beginning does not change.
    """
    left = look.size
    with path.open("rb") as file:
        while left:
            data = file.read(min(READ_BYTES, left))
            if not data:
                raise FileChanged(path)
            left -= len(data)
            if not left and not _is_growing(path.name):
                stat = os.stat(path)
                if Look(stat.st_size, stat.st_mtime_ns, stat.st_ino) != look:
                    raise FileChanged(path)
            yield data


def _is_growing(path: str) -> bool:
    """TensorBoard event files are appended to until the script ends."""
    return ".tfevents." in path
